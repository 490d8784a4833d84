"use strict";
// The exported page: controls, the decoder and one canvas.

const content = JSON.parse(document.getElementById("content").textContent);
const layers = unpack(content.layers, halves(content.numbers));
const code = Float32Array.from(content.start);
const canvas = document.getElementById("image");
const names = storedNames();
for (const leaf of content.leaves) if (names[leaf.name]) leaf.factor = names[leaf.name];
content.rename = (leaf, name) => {
  // a page on disk cannot write the run: names stay in this browser, and commands store them in the run
  names[leaf.name] = name;
  try { localStorage.setItem("unbraid-names-" + content.id, JSON.stringify(names)); } catch { /* no storage: until the page is closed */ }
  showCommands();
};
const controls = makeControls(content, code, shown);
let waiting = false, drawn = 0;

function shown() {
  // decode once per frame, however many events arrive
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const before = performance.now();
    paint(canvas, decode(layers, code));
    document.getElementById("speed").textContent = `${(performance.now() - before).toFixed(1)} ms per frame`;
  });
}

function storedNames() {
  try { return JSON.parse(localStorage.getItem("unbraid-names-" + content.id)) || {}; } catch { return {}; }
}

function showCommands() {
  const quoted = (text) => "'" + text.replaceAll("'", "'\\''") + "'";
  const lines = Object.entries(names).map(([leaf, name]) => `${content.command} ${leaf} ${quoted(name)}`);
  document.getElementById("names").hidden = !lines.length;
  document.getElementById("commands").textContent = lines.join("\n");
}

function go(values) {
  code.set(values);
  controls.show();
  shown();
}

function showExamples() {
  content.examples.forEach((values, i) => {
    const small = element("canvas"), button = element("button", { type: "button", "aria-label": `Example ${i + 1}` }, small);
    button.addEventListener("click", () => go(values));
    document.getElementById("examples").append(button);
    setTimeout(() => paint(small, decode(layers, values)), 20 * i);
  });
}

const play = animation(document.getElementById("play"), controls.step);
const actions = {
  r: () => go(content.start),
  p: () => go(content.draws[drawn++ % content.draws.length]),
  s: () => download(`${content.name}.png`, canvas.toDataURL("image/png")),
  " ": play,
};
document.getElementById("reset").addEventListener("click", actions.r);
document.getElementById("draw").addEventListener("click", actions.p);
document.getElementById("play").addEventListener("click", play);
document.getElementById("save").addEventListener("click", actions.s);
keys(actions);
controls.place();
showCommands();
showExamples();
go(content.start);
