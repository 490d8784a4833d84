"use strict";
// Traversals of all leaves; a click on a cell opens that code. Several runs can share the page.

const wall_runs = new URLSearchParams(location.search).getAll("run").slice(0, 4);

function cell(run, row, i, image, size) {
  const canvas = element("canvas"), where = `${row.factor || row.leaf} at ${row.labels[i]}`;
  show_bytes(canvas, image);
  canvas.style.width = `${size}px`;
  const button = element("button", { type: "button", title: where, "aria-label": `Go to ${where}` }, canvas, element("span", {}, row.labels[i]));
  button.addEventListener("click", () => {
    sessionStorage.setItem("unbraid-code", JSON.stringify(row.codes[i]));
    location.href = `/explore?at=wall&run=${encodeURIComponent(run)}`;
  });
  return button;
}

function line(run, row, images, size) {
  const nats = row.nats === null ? "" : `${row.nats.toFixed(2)} nats`, wide = row.column ? ` ${row.column}` : "";
  const head = element("div", { class: "leafname" }, element("b", {}, (row.factor || row.leaf) + wide), element("span", { class: "quiet" }, `${row.factor ? row.leaf + " · " : ""}${nats}`));
  const cells = element("div", { class: "cells" }, ...row.labels.map((_, i) => cell(run, row, i, images[i], size)));
  return element("div", { class: "wallrow", role: "group", "aria-label": row.factor || row.leaf }, head, cells);
}

async function draw_wall(box, run, mode, order) {
  box.replaceChildren(element("p", { class: "quiet" }, "Decoding …"));
  try {
    const z = mode === "image" ? JSON.parse(sessionStorage.getItem("unbraid-code") || "null") : null;
    const { head, images } = await live.ask({ ask: "wall", run, mode, z });
    const live_rows = element("div"), folded = element("details"), size = images[0].w <= 16 ? 40 : 56;
    let at = 0, dead = 0;
    const lines = head.rows.map((row) => {
      const made = line(run, row, images.slice(at, at + row.labels.length), size);
      at += row.labels.length;
      if (row.dead) dead++;
      return { row, made };
    });
    const place = order ? order(lines) : lines;
    for (const { row, made } of place) (row.dead ? folded : live_rows).append(made);
    folded.prepend(element("summary", {}, `${dead} ${dead === 1 ? "row carries" : "rows carry"} less than 0.05 nats`));
    box.replaceChildren(...(wall_runs.length > 1 ? [element("h2", {}, run)] : []), live_rows, ...(dead ? [folded] : []));
    folded.open = dead === lines.length;
    box.dataset.ready = "yes";
    return head.rows;
  } catch (error) {
    box.replaceChildren(element("p", { class: "wrong", role: "alert" }, error.message));
    return [];
  }
}

function matched(first) {
  // sort the rows of another run like those of the first: by the factor they follow, then by their nats
  return (lines) => {
    const rest = [...lines], out = [];
    for (const row of first) {
      const at = row.factor ? rest.findIndex((other) => other.row.factor === row.factor) : -1;
      if (at >= 0) out.push(...rest.splice(at, 1));
    }
    return [...out, ...rest];
  };
}

async function walls() {
  const mode = document.getElementById("mode").value, boxes = document.getElementById("walls");
  boxes.replaceChildren(...wall_runs.map(() => element("section", { class: "wall" })));
  let first = null;
  for (let i = 0; i < wall_runs.length; i++) {
    const rows = await draw_wall(boxes.children[i], wall_runs[i], mode, first && matched(first));
    if (!first) first = rows;
  }
}
ready("walls").then(() => {
  document.getElementById("mode").addEventListener("change", walls);
  walls();
});
