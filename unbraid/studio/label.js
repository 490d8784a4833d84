"use strict";
// Labels by hand, keyboard first: one factor at a time, saved after every mark.

const label_page = { at: 0, head: null, factor: "", marks: {}, waiting: {}, timer: null, line: Promise.resolve() };

function value_names() {
  return document.getElementById("values").value.split(",").map((v) => v.trim()).filter(Boolean).slice(0, 10);
}

function current_factor() {
  return document.getElementById("factor").value.trim();
}

function show_marks() {
  const { head, marks, at } = label_page, cells = document.getElementById("grid").children;
  head.index.forEach((index, i) => {
    const value = marks[index] || "";
    cells[i].querySelector("span").textContent = value || "–";
    cells[i].setAttribute("aria-selected", i === at ? "true" : "false");
    cells[i].setAttribute("aria-label", `Image ${head.names[i]}: ${value || "no value"}`);
  });
  document.getElementById("grid").setAttribute("aria-activedescendant", `cell${at}`);
  const legend = value_names().map((name, i) => {
    const button = element("button", { type: "button" }, element("kbd", {}, String((i + 1) % 10)), ` ${name}`);
    button.addEventListener("click", () => mark(name));
    return button;
  });
  document.getElementById("legend").replaceChildren(...legend);
}

function move_to(at) {
  const last = label_page.head.index.length - 1;
  label_page.at = Math.max(0, Math.min(last, at));
  show_marks();
  document.getElementById("grid").children[label_page.at].scrollIntoView({ block: "nearest" });
}

function mark(value) {
  const index = label_page.head.index[label_page.at];
  label_page.marks[index] = value;
  label_page.waiting[index] = value;
  clearTimeout(label_page.timer);
  label_page.timer = setTimeout(save_marks, 250);
  if (value) move_to(label_page.at + 1);
  else show_marks();
}

function save_marks() {
  label_page.line = label_page.line.then(send_marks);  // one request after the other
  return label_page.line;
}

async function send_marks() {
  if (!Object.keys(label_page.waiting).length) return;
  const values = label_page.waiting, factor = label_page.factor;
  label_page.waiting = {};
  try {
    const answer = await fetch("/studio/label/save", { method: "POST", body: JSON.stringify({ run: asked_run(), factor, values }) });
    const found = await answer.json();
    if (found.error) throw new Error(found.error);
    tell(`${found.saved} ${found.saved === 1 ? "image has" : "images have"} a value of ${factor}, saved in ${label_page.head.file}.`);
    document.getElementById("command").textContent = `Train with them: ${found.command}`;
    label_page.head.factors[factor] = { ...(label_page.head.factors[factor] || {}), ...values };
  } catch (error) {
    label_page.waiting = { ...values, ...label_page.waiting };  // the next mark tries again
    tell(`Not saved: ${error.message}`, true);
  }
}

async function change_factor() {
  await save_marks();
  if (Object.keys(label_page.waiting).length) document.getElementById("factor").value = label_page.factor;  // they belong to it
  else if (label_page.head) take_factor();
}

function pressed(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || !label_page.head) return;
  const names = value_names(), grid = document.getElementById("grid");
  const across = Math.max(1, getComputedStyle(grid).gridTemplateColumns.split(" ").length);
  const moves = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: across, ArrowUp: -across };
  if (/^[0-9]$/.test(event.key)) {
    const name = names[(Number(event.key) + 9) % 10];
    if (name !== undefined) mark(name);
  } else if (event.key in moves) move_to(label_page.at + moves[event.key]);
  else if (event.key === "Backspace" || event.key === "Delete") mark("");
  else if (event.key === "n" || event.key === "N") {
    const next = label_page.head.index.findIndex((index, i) => i > label_page.at && !label_page.marks[index]);
    if (next >= 0) move_to(next);
  } else return;
  event.preventDefault();
}

function take_factor() {
  label_page.factor = current_factor();
  const stored = label_page.head.factors[current_factor()] || {};
  label_page.marks = { ...stored };
  const known = [...new Set(Object.values(stored).filter(Boolean))].sort();
  const box = document.getElementById("values");
  if (known.length && known.some((name) => !value_names().includes(name))) box.value = known.join(", ");
  show_marks();
}

async function load_page() {
  const query = new URLSearchParams({ run: asked_run(), n: document.getElementById("count").value, seed: document.getElementById("seed").value || "0" });
  const grid = document.getElementById("grid");
  grid.replaceChildren(element("p", { class: "quiet" }, "Loading …"));
  try {
    const { head, images } = unpacked(await (await fetch(`/studio/label/images?${query}`)).arrayBuffer());
    if (head.error) throw new Error(head.error);
    label_page.head = head;
    label_page.at = 0;
    grid.replaceChildren(...images.map((image, i) => {
      const canvas = element("canvas");
      show_bytes(canvas, image);
      const cell = element("div", { role: "option", id: `cell${i}` }, canvas, element("span", { class: "quiet" }, "–"));
      cell.addEventListener("click", () => { move_to(i); grid.focus(); });
      return cell;
    }));
    document.getElementById("factors").replaceChildren(...Object.keys(head.factors).map((name) => element("option", { value: name })));
    take_factor();
    grid.dataset.ready = "yes";
    grid.focus();
  } catch (error) {
    label_page.head = null;
    grid.replaceChildren();
    tell(error.message, true);
  }
}

ready("grid").then(() => {
  document.getElementById("grid").addEventListener("keydown", pressed);
  document.getElementById("values").addEventListener("change", () => label_page.head && show_marks());
  document.getElementById("factor").addEventListener("change", change_factor);
  for (const id of ["count", "seed"]) document.getElementById(id).addEventListener("change", async () => { await save_marks(); load_page(); });
  load_page();
});
