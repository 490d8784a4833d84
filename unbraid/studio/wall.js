"use strict";
// Traversals of all leaves; a click on a cell opens that code. Several runs share the page: order and signs of the first.

const wall_runs = new URLSearchParams(location.search).getAll("run").slice(0, 4), several = wall_runs.length > 1;
const MAX_FIT = 160; // pixels of a cell that follows the width
let shown = []; // per run: {run, rows}, where a row holds what the server sent and its images
let chosen_size = null; // pixels; null follows the width

const title = (row) => (row.given || row.factor || row.leaf) + (row.wide ? ` ${row.column}` : "");
const row_key = (leaf, column) => JSON.stringify([leaf, column]);

function details(row) {
  const nats = row.nats === null ? "" : `${row.nats.toFixed(2)} nats`, alike = row.correlation === null ? "" : `ρ ${row.correlation.toFixed(2)}`;
  return [row.given && row.factor, title(row) !== row.leaf && row.leaf, nats, several && alike].filter(Boolean).join(" · ");
}

function cell(run, row, i) {
  const canvas = element("canvas"), where = `${title(row)} at ${row.labels[i]}`;
  show_bytes(canvas, row.images[i]);
  const button = element("button", { type: "button", title: where, "aria-label": `Go to ${where}` }, canvas, element("span", {}, row.labels[i]));
  button.addEventListener("click", () => {
    sessionStorage.setItem("unbraid-code", JSON.stringify(row.codes[i]));
    location.href = `/explore?at=wall&run=${encodeURIComponent(run)}`;
  });
  return button;
}

function columns_shown(row) {
  // three or more runs share the width: every second value of a real leaf
  const all = row.labels.map((_, i) => i);
  return shown.length > 2 && row.kind === "real" ? all.filter((i) => i % 2 === 0) : all;
}

function line(run, row) {
  const head = element("div", { class: "leafname" }, element("b", {}, title(row)), element("span", { class: "quiet" }, details(row)));
  if (several) head.prepend(element("span", { class: "runname quiet" }, run));
  return element("div", { class: "wallrow", role: "group", "aria-label": title(row) }, head, element("div", { class: "cells" }, ...columns_shown(row).map((i) => cell(run, row, i))));
}

async function load(run, mode, like) {
  const z = mode === "image" ? JSON.parse(sessionStorage.getItem("unbraid-code") || "null") : null;
  try {
    const { head, images } = await live.ask({ ask: "wall", run, mode, z: like === null ? z : null, like });
    let at = 0;
    for (const row of head.rows) {
      row.images = images.slice(at, at + row.labels.length);
      at += row.labels.length;
    }
    return { run, rows: head.rows };
  } catch (error) {
    return { run, rows: [], error: error.message };
  }
}

function aligned_rows() {
  // lists of rows, one entry per run (null where it has no partner): those of the first run, then rows without a partner
  const first = shown[0].rows.map((row) => [row, ...shown.slice(1).map((other) => other.rows.find((r) => r.partner && row_key(...r.partner) === row_key(row.leaf, row.column)) || null)]);
  const rest = shown.slice(1).flatMap((other, i) => other.rows.filter((r) => !first.some((list) => list[i + 1] === r)).map((row) => shown.map((_, k) => (k === i + 1 ? row : null))));
  return [...first, ...rest];
}

function place() {
  const box = document.getElementById("walls"), lists = aligned_rows(), dead = (list) => list.every((row) => !row || row.dead);
  const grid = (some) => element("div", { class: "aligned" }, ...some.flatMap((list) => list.map((row, i) => (row ? line(shown[i].run, row) : element("div", { class: "nothing" })))));
  const live_lists = lists.filter((list) => !dead(list)), folded = lists.filter(dead);
  box.style.setProperty("--runs", shown.length);
  box.classList.toggle("several", several);
  const heads = several ? [element("div", { class: "aligned heads" }, ...shown.map(({ run }) => element("h2", {}, run)))] : [];
  const parts = [...heads, grid(live_lists)];
  if (folded.length) {
    const fold = element("details", {}, element("summary", {}, `${folded.length} ${folded.length === 1 ? "row carries" : "rows carry"} less than 0.05 nats`), grid(folded));
    fold.open = !live_lists.length;
    fold.addEventListener("toggle", resize);
    parts.push(fold);
  }
  for (const { run, error } of shown) if (error) parts.unshift(element("p", { class: "wrong", role: "alert" }, `${several ? run + ": " : ""}${error}`));
  box.replaceChildren(...parts);
  resize();
}

function resize() {
  // cells of one size: as wide as the longest row allows, or as chosen
  const lists = Array.from(document.querySelectorAll("#walls .cells")).filter((cells) => cells.clientWidth);
  const fit = Math.min(MAX_FIT, ...lists.filter((cells) => cells.children.length <= 12).map((cells) => Math.floor((cells.clientWidth - 4) / cells.children.length) - 6));
  const size = chosen_size || Math.max(16, lists.length ? fit : 56);
  document.getElementById("walls").style.setProperty("--cell", `${size}px`);
  document.getElementById("size").value = size;
  document.getElementById("fit").setAttribute("aria-pressed", String(chosen_size === null));
}

async function walls() {
  const mode = document.getElementById("mode").value, box = document.getElementById("walls");
  delete box.dataset.ready;
  box.replaceChildren(element("p", { class: "quiet" }, "Decoding …"));
  shown = [];
  for (const run of wall_runs) shown.push(await load(run, mode, shown.length ? wall_runs[0] : null));
  place();
  box.dataset.ready = "yes";
}

function sheet() {
  // what is saved: positions of labels and pictures, without folded rows
  const gap = 4, side = Math.max(24, chosen_size || Number(document.getElementById("size").value)), label = 150, texts = [], pictures = [];
  let top = 10, wide = 0;
  for (const list of aligned_rows().filter((list) => list.some((row) => row && !row.dead) || shown.every(({ rows }) => rows.every((row) => row.dead)))) {
    list.forEach((row, k) => {
      if (!row) return;
      const high = (side * row.images[0].h) / row.images[0].w;
      texts.push({ x: 8, y: top + high / 2, text: title(row), size: 13 });
      if (several) texts.push({ x: 8, y: top + high / 2 + 14, text: shown[k].run, size: 9 });
      row.images.forEach((image, i) => pictures.push({ x: label + i * (side + gap), y: top, w: side, h: high, image }));
      wide = Math.max(wide, label + row.images.length * (side + gap));
      top += high + gap;
    });
    if (several) top += 8;
  }
  return { texts, pictures, width: wide + 8, height: top + 6 };
}

function picture_canvas(image) {
  const canvas = element("canvas");
  show_bytes(canvas, image);
  return canvas;
}

function save_png() {
  const { texts, pictures, width, height } = sheet(), canvas = element("canvas", { width: 2 * width, height: 2 * height }), pen = canvas.getContext("2d");
  pen.scale(2, 2);
  pen.fillStyle = "#ffffff";
  pen.fillRect(0, 0, width, height);
  pen.imageSmoothingEnabled = false;
  for (const { x, y, w, h, image } of pictures) pen.drawImage(picture_canvas(image), x, y, w, h);
  pen.fillStyle = "#1f2430";
  for (const { x, y, text, size } of texts) { pen.font = `${size}px sans-serif`; pen.fillText(text, x, y, 138); }
  canvas.toBlob((blob) => download(`${file_name()}.png`, URL.createObjectURL(blob)), "image/png");
}

function save_svg() {
  const { texts, pictures, width, height } = sheet(), space = "http://www.w3.org/2000/svg";
  const make = (tag, attributes, text = "") => {
    const node = document.createElementNS(space, tag);
    for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
    node.textContent = text;
    return node;
  };
  const root = make("svg", { xmlns: space, width, height, viewBox: `0 0 ${width} ${height}` });
  root.append(make("rect", { width, height, fill: "#ffffff" }));
  for (const { x, y, w, h, image } of pictures) root.append(make("image", { x, y, width: w, height: h, href: picture_canvas(image).toDataURL(), style: "image-rendering: pixelated" }));
  for (const { x, y, text, size } of texts) root.append(make("text", { x, y, "font-size": size, "font-family": "sans-serif", fill: "#1f2430" }, text));
  download(`${file_name()}.svg`, URL.createObjectURL(new Blob([new XMLSerializer().serializeToString(root)], { type: "image/svg+xml" })));
}

async function save_gif() {
  const mode = document.getElementById("mode").value;
  tell("Drawing …");
  for (const { run } of shown) {
    const z = mode === "image" && !several ? JSON.parse(sessionStorage.getItem("unbraid-code") || "null") : null;
    const reply = await fetch("/studio/film", { method: "POST", body: JSON.stringify({ run, mode, z }) });
    if (!reply.ok) { tell(await reply.text(), true); return; }
    download(`${run.replaceAll("/", "-")}-traversals.gif`, URL.createObjectURL(await reply.blob()));
  }
  tell("Saved: every leaf moves at once.");
}

function file_name() {
  return `${wall_runs.map((run) => run.replaceAll("/", "-")).join("-and-")}-traversals`;
}

ready("walls").then(() => {
  const on = (id, event, action) => document.getElementById(id).addEventListener(event, action);
  if (several) document.getElementById("about").textContent = "Latents in the order and with the signs of the first run, matched by the correlation ρ of their codes where the data are the same, else by the factor that they follow. Click a cell to open its code.";
  on("mode", "change", walls);
  on("size", "input", () => { chosen_size = Number(document.getElementById("size").value); resize(); });
  on("fit", "click", () => { chosen_size = null; resize(); });
  on("png", "click", save_png);
  on("svg", "click", save_svg);
  on("gif", "click", save_gif);
  new ResizeObserver(resize).observe(document.getElementById("walls"));
  walls();
});
