"use strict";
// The page: a control for every leaf, one canvas, and the decoder between them.

const content = JSON.parse(document.getElementById("content").textContent);
const layers = unpack(content.layers, halves(content.numbers));
const code = Float32Array.from(content.start);
const canvas = document.getElementById("image");
const controls = []; // functions that show the present code
let waiting = false, touched = null, playing = 0, drawn = 0;

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function shown() {
  // decode at the next frame, however many events there were before it
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    const before = performance.now();
    paint(canvas, decode(layers, code));
    document.getElementById("speed").textContent = `${(performance.now() - before).toFixed(1)} ms a frame`;
  });
}

function go(values) {
  code.set(values);
  for (const show of controls) show();
  shown();
}

function touch(leaf, node) {
  document.querySelectorAll(".touched").forEach((other) => other.classList.remove("touched"));
  node.classList.add("touched");
  touched = leaf;
}

function slider(leaf, column, label, node) {
  const low = leaf.low[column], high = leaf.high[column], at = leaf.start + column;
  const input = element("input", { type: "range", min: low, max: high, step: "any", "aria-label": label });
  const output = element("output");
  const show = () => {
    input.value = code[at];
    output.textContent = code[at].toFixed(2);
    input.setAttribute("aria-valuetext", code[at].toFixed(2));
  };
  const set = (value) => {
    code[at] = Math.min(high, Math.max(low, value));
    touch(leaf, node);
    show();
    shown();
  };
  input.addEventListener("input", () => set(Number(input.value)));
  input.addEventListener("keydown", (event) => {
    // an "any" step gives arrow keys no size of their own
    const step = (high - low) / 60, by = { ArrowRight: step, ArrowUp: step, ArrowLeft: -step, ArrowDown: -step, PageUp: 10 * step, PageDown: -10 * step }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    set(code[at] + by);
  });
  controls.push(show);
  return element("div", { class: "row" }, input, output);
}

function choices(leaf, node, label) {
  // a one-hot leaf: one of its classes; bits: each on or off
  const box = element("div", { class: "choices" }), one = leaf.kind === "onehot", inputs = [];
  for (let i = 0; i < leaf.width; i++) {
    const input = element("input", { type: one ? "radio" : "checkbox", name: leaf.name, value: i });
    input.addEventListener("change", () => {
      if (one) for (let j = 0; j < leaf.width; j++) code[leaf.start + j] = j === i ? 1 : 0;
      else code[leaf.start + i] = input.checked ? 1 : 0;
      touch(leaf, node);
      shown();
    });
    inputs.push(input);
    box.append(element("label", {}, input, !one && leaf.width === 1 ? "on" : String(i)));
  }
  controls.push(() => {
    const values = code.subarray(leaf.start, leaf.start + leaf.width), top = values.indexOf(Math.max(...values));
    inputs.forEach((input, i) => { input.checked = one ? i === top : values[i] > 0.5; });
  });
  box.setAttribute("role", one ? "radiogroup" : "group");
  box.setAttribute("aria-label", label);
  return box;
}

function card(leaf) {
  const label = leaf.factor ? `${leaf.factor} (${leaf.name})` : leaf.name;
  const node = element("div", { class: "leaf", role: "group", "aria-label": label });
  const nats = leaf.nats === null ? "" : `${leaf.nats.toFixed(2)} nats`;
  node.append(element("div", { class: "head" }, element("b", {}, leaf.factor || leaf.name),
    element("span", { class: "quiet" }, leaf.factor ? `${leaf.name}${nats ? " · " + nats : ""}` : nats)));
  if (leaf.kind !== "real") node.append(choices(leaf, node, label));
  else for (let i = 0; i < leaf.width; i++) node.append(slider(leaf, i, leaf.width > 1 ? `${label} ${i}` : label, node));
  return node;
}

function branch(leaf) {
  // the outermost branch that a leaf hangs below: names inside a branch begin with its name
  return content.branches.find((name) => leaf.name.startsWith(name + ".")) || "";
}

function place_cards() {
  const groups = new Map();
  for (const leaf of content.leaves.filter((leaf) => !leaf.dead)) {
    const name = branch(leaf);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(leaf);
  }
  const live = document.getElementById("live");
  for (const [name, leaves] of groups) {
    if (name && content.branches.length) live.append(element("h2", {}, name));
    leaves.forEach((leaf) => live.append(card(leaf)));
  }
  const dead = content.leaves.filter((leaf) => leaf.dead), folded = document.getElementById("folded");
  folded.hidden = !dead.length;
  folded.open = dead.length === content.leaves.length;
  document.getElementById("count").textContent = `${dead.length} ${dead.length === 1 ? "leaf carries" : "leaves carry"} less than ${content.threshold} nats`;
  dead.forEach((leaf) => document.getElementById("dead").append(card(leaf)));
}

function place_examples() {
  content.examples.forEach((values, i) => {
    const small = element("canvas"), button = element("button", { type: "button", "aria-label": `Example ${i + 1}` }, small);
    button.addEventListener("click", () => go(values));
    document.getElementById("examples").append(button);
    setTimeout(() => paint(small, decode(layers, values)), 20 * i);
  });
}

function play() {
  // the leaf touched last goes to and fro; a discrete one through its classes
  const button = document.getElementById("play");
  if (playing) {
    cancelAnimationFrame(playing);
    playing = 0;
  } else {
    const begin = performance.now();
    const frame = (now) => {
      const leaf = touched || content.leaves[0], turn = ((now - begin) / 4000) % 1;
      for (let i = 0; i < leaf.width; i++) {
        const middle = (leaf.low[i] + leaf.high[i]) / 2, reach = (leaf.high[i] - leaf.low[i]) / 2;
        if (leaf.kind === "real") { if (i === 0) code[leaf.start] = middle + reach * Math.sin(2 * Math.PI * turn); }
        else if (leaf.kind === "onehot") code[leaf.start + i] = i === Math.floor(turn * leaf.width) ? 1 : 0;
        else code[leaf.start + i] = (Math.floor(turn * 2 ** Math.min(leaf.width, 4)) >> i) & 1;
      }
      for (const show of controls) show();
      shown();
      playing = requestAnimationFrame(frame);
    };
    playing = requestAnimationFrame(frame);
  }
  button.setAttribute("aria-pressed", String(Boolean(playing)));
}

function save() {
  const link = element("a", { download: `${content.name}.png`, href: canvas.toDataURL("image/png") });
  link.click();
}

const actions = {
  r: () => go(content.start),
  p: () => go(content.draws[drawn++ % content.draws.length]),
  s: save,
  " ": play,
};
document.getElementById("reset").addEventListener("click", actions.r);
document.getElementById("draw").addEventListener("click", actions.p);
document.getElementById("play").addEventListener("click", play);
document.getElementById("save").addEventListener("click", save);
document.addEventListener("keydown", (event) => {
  const typing = event.key === " " && ["BUTTON", "SUMMARY", "INPUT"].includes(event.target.tagName) && event.target.type !== "range";
  if (event.ctrlKey || event.metaKey || event.altKey || typing || !actions[event.key.toLowerCase()]) return;
  event.preventDefault();
  actions[event.key.toLowerCase()]();
});

place_cards();
place_examples();
go(content.start);
