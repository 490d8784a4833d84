"use strict";
// Explore: an image of the data or of a file, its posterior, and a control for every leaf.

const run = asked_run(), get = (id) => document.getElementById(id);
const slots = { a: null, b: null }; // the two stored codes
let content = null, code = null, controls = null, map = null, busy = false, again = false, seed = 0, at = 0, warning = "";

async function follow() {
  // request the current code; while a response is pending only the latest request is remembered
  mark();
  if (busy) { again = true; return; }
  busy = true;
  do {
    again = false;
    try {
      const { images } = await live.ask({ ask: "decode", run, z: Array.from(code) });
      show_bytes(get("image"), images[0]);
      get("image").dataset.frames = Number(get("image").dataset.frames || 0) + 1;
    } catch (error) {
      tell(error.message, true);
    }
  } while (again);
  busy = false;
}

function mark() {
  // name the columns that lie outside the values of the training data, and show the code on the map
  if (map) map.draw();
  const [low, high] = content.seen || [[], []], wrong = [];
  for (const leaf of content.leaves.filter((leaf) => leaf.kind === "real" && content.seen))
    for (let i = leaf.start; i < leaf.start + leaf.width; i++)
      if (code[i] < low[i] - 1e-4 || code[i] > high[i] + 1e-4)
        wrong.push(`${leaf.given || leaf.factor || leaf.name} ${code[i].toFixed(2)} (seen ${low[i].toFixed(2)} … ${high[i].toFixed(2)})`);
  const notes = [...(warning ? [warning] : []), ...(wrong.length ? [`Outside the training range: ${wrong.join(", ")}.`] : [])];
  get("range").textContent = notes.join(" ");
  get("range").hidden = !notes.length;
  get("image").classList.toggle("outside", wrong.length > 0);
}

function go(values) {
  code.set(values);
  controls.show();
  follow();
}

function see({ head, images }) {
  show_bytes(get("input"), images[0]);
  show_bytes(get("decoded"), images[1]);
  get("seen").hidden = false;
  controls.posterior({ mean: head.mean, scale: head.scale });
  tell(head.label);
  content.home = head.mean;
  warning = head.warning || "";
  go(head.mean);
}

async function choose(index) {
  at = ((index % content.count) + content.count) % content.count;
  get("index").value = at;
  try {
    see(await live.ask({ ask: "image", run, index: at }));
  } catch (error) {
    tell(error.message, true);
  }
}

async function drop(file) {
  tell(`Reading ${file.name} …`);
  try {
    if (file.size > 8 << 20) throw new Error(`${file.name} is too large: 8 MB at most.`);
    const reply = await fetch(`/studio/drop?run=${encodeURIComponent(run)}`, { method: "POST", body: file });
    if (!reply.ok) throw new Error(`The studio refused ${file.name}.`);
    const found = unpacked(await reply.arrayBuffer());
    if (found.head.error) throw new Error(found.head.error);
    found.head.label = file.name;
    see(found);
  } catch (error) {
    tell(error.message, true);
  }
}

async function strip() {
  const box = get("strip");
  if (!content.count) { box.hidden = true; get("chooser").hidden = true; return; }
  const { head, images } = await live.ask({ ask: "strip", run, first: 0, count: 24 });
  head.index.forEach((index, i) => {
    const small = element("canvas"), button = element("button", { type: "button", "aria-label": `Image ${index}` }, small);
    show_bytes(small, images[i]);
    button.addEventListener("click", () => choose(index));
    box.append(button);
  });
}

function keep(slot) {
  slots[slot] = Array.from(code);
  const from = get("image"), to = get(`kept-${slot}`);
  to.width = from.width;
  to.height = from.height;
  to.getContext("2d").drawImage(from, 0, 0);
  const ready = Boolean(slots.a && slots.b);
  for (const id of ["between", "node", "swap", "back"]) get(id).disabled = !ready;
  tell(ready ? "Two codes are kept: move between them, or swap a branch." : `Kept as ${slot.toUpperCase()}.`);
}

function between() {
  const t = Number(get("between").value);
  go(slots.a.map((v, i) => (1 - t) * v + t * slots.b[i]));
}

function swap(first, second) {
  // the selected node of one code, all other columns of the other
  const columns = new Set(content.nodes[get("node").value]);
  go(slots[second].map((v, i) => (columns.has(i) ? slots[first][i] : v)));
  tell(`${get("node").selectedOptions[0].text} of ${first.toUpperCase()}, the rest of ${second.toUpperCase()}`);
}

async function film() {
  const leaf = controls.leaf().name;
  tell(`Drawing ${leaf} …`);
  const reply = await fetch("/studio/film", { method: "POST", body: JSON.stringify({ run, leaf, z: Array.from(code) }) });
  if (!reply.ok) { tell(await reply.text(), true); return; }
  const made = URL.createObjectURL(await reply.blob());
  download(`${content.name}-${leaf}.gif`, made);
  tell(`Saved ${leaf} as a GIF.`);
}

function wire() {
  const play = animation(get("play"), controls.step);
  const actions = {
    r: () => go(content.home),
    p: async () => { const { head } = await live.ask({ ask: "prior", run, seed: seed++ }); go(head.z); tell("Drawn from the prior."); },
    s: () => download(`${content.name}.png`, get("image").toDataURL("image/png")),
    a: () => keep("a"),
    b: () => keep("b"),
    n: () => content.count && choose(at + 1),
    " ": play,
  };
  const clicks = { reset: actions.r, draw: actions.p, play, save: actions.s, film, "keep-a": actions.a, "keep-b": actions.b,
    swap: () => swap("a", "b"), back: () => swap("b", "a"), previous: () => choose(at - 1), next: actions.n,
    any: () => choose(Math.floor(Math.random() * content.count)) };
  for (const [id, action] of Object.entries(clicks)) get(id).addEventListener("click", action);
  get("between").addEventListener("input", between);
  get("index").addEventListener("change", () => choose(Math.round(Number(get("index").value)) || 0));
  get("file").addEventListener("change", () => get("file").files[0] && drop(get("file").files[0]));
  const zone = document.querySelector(".studio");
  zone.addEventListener("dragover", (event) => { event.preventDefault(); zone.classList.add("over"); });
  zone.addEventListener("dragleave", () => zone.classList.remove("over"));
  zone.addEventListener("drop", (event) => {
    event.preventDefault();
    zone.classList.remove("over");
    if (event.dataTransfer.files[0]) drop(event.dataTransfer.files[0]);
  });
  for (const name of Object.keys(content.nodes)) get("node").append(element("option", { value: name }, content.titles[name] || name));
  keys(actions);
}

async function begin() {
  try {
    const { head, images } = await live.ask({ ask: "open", run });
    content = { ...head, threshold: 0.05, home: head.start };
    code = Float32Array.from(head.start);
    content.rename = async (leaf, name) => {
      const reply = await fetch("/studio/name", { method: "POST", body: JSON.stringify({ run, leaf: leaf.name, name }) });
      tell(reply.ok ? `${leaf.name} is named.` : await reply.text(), !reply.ok);
    };
    controls = makeControls(content, code, follow);
    controls.place();
    controls.show();
    show_bytes(get("image"), images[0]);
    wire();
    if (content.map) map = makeMap(run, content, { choose, go, current: () => code, show_in: show_bytes });
    await strip();
    const wanted = sessionStorage.getItem("unbraid-code"), from = new URLSearchParams(location.search).get("at");
    if (wanted && from === "wall") go(JSON.parse(wanted));
    else if (content.count) await choose(content.middle);
    get("explorer").dataset.ready = "yes";
    if (map) await map.begin();
  } catch (error) {
    tell(error.message, true);
  }
}
ready("folded").then(begin);
