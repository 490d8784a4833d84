"use strict";
// Map of the latent space: one point per image of the data, in two columns or two principal components.

const MAP_CLASSES = ["#3b82c4", "#dd6b20", "#2f9e62", "#8464c8", "#c9428c", "#8a9099", "#c9971c", "#2ba3a3", "#b0413e", "#5f6fd0"];
const MAP_RAMP = [[68, 1, 84], [59, 82, 139], [33, 145, 140], [94, 201, 98], [253, 231, 37]];

function ramp(share) {
  const at = Math.min(0.9999, Math.max(0, share)) * (MAP_RAMP.length - 1), i = Math.floor(at), t = at - i;
  return `rgb(${MAP_RAMP[i].map((v, k) => Math.round(v + t * (MAP_RAMP[i + 1][k] - v))).join(",")})`;
}

function makeMap(run, content, { choose, go, current, show_in }) {
  // choose(index): open an image; go(code): open a code; current(): the code that is shown
  const canvas = document.getElementById("map"), hint = document.getElementById("map-hint"), legend = document.getElementById("map-legend");
  const selects = { across: document.getElementById("map-across"), up: document.getElementById("map-up"), colour: document.getElementById("map-colour") };
  const pad = 10, images = new Map();
  let points = null, colours = [], box = null, over = -1, asking = false;

  function position(x, y) {
    return [pad + ((x - box.left) / (box.right - box.left)) * (box.width - 2 * pad), pad + ((box.top - y) / (box.top - box.bottom)) * (box.height - 2 * pad)];
  }

  function project(code) {
    const along = (axis) => axis.reduce((sum, v, i) => sum + v * code[i], 0);
    return [along(points.across), along(points.up)];
  }

  function frame() {
    const range = (values) => {
      const low = Math.min(...values), high = Math.max(...values), wide = high - low || 1;
      return [low - 0.04 * wide, high + 0.04 * wide];
    };
    const [left, right] = range(points.x), [bottom, top] = range(points.y);
    box = { left, right, bottom, top, width: canvas.clientWidth, height: canvas.clientHeight };
  }

  function draw() {
    if (!points || !canvas.clientWidth) return;
    frame();
    const dense = window.devicePixelRatio || 1, pen = canvas.getContext("2d");
    canvas.width = box.width * dense;
    canvas.height = box.height * dense;
    pen.scale(dense, dense);
    const style = getComputedStyle(document.body), ink = style.getPropertyValue("--ink"), ground = style.getPropertyValue("--ground");
    pen.strokeStyle = style.getPropertyValue("--line");
    const [zero_x, zero_y] = position(0, 0);
    pen.beginPath();
    pen.moveTo(zero_x, 0); pen.lineTo(zero_x, box.height);
    pen.moveTo(0, zero_y); pen.lineTo(box.width, zero_y);
    pen.stroke();
    pen.globalAlpha = 0.75;
    points.x.forEach((x, i) => {
      const [u, v] = position(x, points.y[i]);
      pen.fillStyle = colours[i];
      pen.beginPath();
      pen.arc(u, v, 3, 0, 7);
      pen.fill();
    });
    pen.globalAlpha = 1;
    if (over >= 0) ring(pen, position(points.x[over], points.y[over]), 6, ink, ground);
    const [u, v] = position(...project(current())), inside = (w, most) => Math.min(most - 7, Math.max(7, w));
    ring(pen, [inside(u, box.width), inside(v, box.height)], 8, style.getPropertyValue("--accent"), ground);
  }

  function ring(pen, [u, v], radius, colour, ground) {
    for (const [width, style] of [[5, ground], [2.5, colour]]) {
      pen.lineWidth = width;
      pen.strokeStyle = style;
      pen.beginPath();
      pen.arc(u, v, radius, 0, 7);
      pen.stroke();
    }
  }

  function paint() {
    // colours of the points, and their legend
    const { values, classes } = points, grey = "#8a9099";
    legend.replaceChildren();
    if (!values) { colours = points.x.map(() => MAP_CLASSES[0]); return; }
    if (classes) {
      colours = values.map((v) => (v === null ? grey : MAP_CLASSES[v % MAP_CLASSES.length]));
      classes.forEach((name, i) => {
        const dot = element("i");
        dot.style.background = MAP_CLASSES[i % MAP_CLASSES.length];
        legend.append(element("span", {}, dot, name));
      });
      return;
    }
    const known = values.filter((v) => v !== null).sort((a, b) => a - b), quantile = (q) => known[Math.floor(q * (known.length - 1))];
    const low = quantile(0.01), high = quantile(0.99), bar = element("i", { class: "ramp" });
    colours = values.map((v) => (v === null ? grey : ramp((v - low) / (high - low || 1))));
    bar.style.background = `linear-gradient(to right, ${[0, 0.25, 0.5, 0.75, 1].map(ramp).join(",")})`;
    legend.append(element("span", {}, Number(low).toPrecision(2), bar, Number(high).toPrecision(2)));
  }

  async function load() {
    const asked = Object.fromEntries(Object.entries(selects).map(([key, select]) => [key, select.value]));
    legend.textContent = "Computing …";
    try {
      points = (await live.ask({ ask: "map", run, ...asked })).head;
      over = -1;
      hint.hidden = true;
      paint();
      draw();
      canvas.dataset.ready = Object.values(asked).join("|");
    } catch (error) {
      legend.textContent = "";
      tell(error.message, true);
    }
  }

  function nearest(event, reach) {
    const place = canvas.getBoundingClientRect(), a = event.clientX - place.left, b = event.clientY - place.top;
    let best = -1, least = reach * reach;
    points.x.forEach((x, i) => {
      const [u, v] = position(x, points.y[i]), far = (u - a) ** 2 + (v - b) ** 2;
      if (far < least) { least = far; best = i; }
    });
    return best;
  }

  async function look(point) {
    // thumbnail of a point; while a response is pending only the latest point is remembered
    over = point;
    draw();
    hint.hidden = true;
    if (point < 0) return;
    if (!images.has(point)) {
      if (asking) return;
      asking = true;
      try {
        images.set(point, await live.ask({ ask: "point", run, point }));
      } catch (error) {
        tell(error.message, true);
        return;
      } finally {
        asking = false;
      }
      if (over !== point) { look(over); return; }
    }
    const found = images.get(point), [u, v] = position(points.x[point], points.y[point]), [small, text] = hint.children;
    show_in(small, found.images[0]);
    text.textContent = found.head.label;
    hint.hidden = false;
    hint.style.left = `${Math.max(0, Math.min(box.width - hint.offsetWidth, u - hint.offsetWidth / 2))}px`;
    hint.style.top = v > hint.offsetHeight + 16 ? `${v - hint.offsetHeight - 12}px` : `${v + 12}px`;
    hint.dataset.point = point;
  }

  async function open(point) {
    const found = images.get(point) || (await live.ask({ ask: "point", run, point }));
    if (found.head.index === null) go(found.head.z);
    else choose(found.head.index);
  }

  function move(event) {
    // a click beside all points moves the two columns of the axes, if they are real columns
    const place = canvas.getBoundingClientRect(), real = new Set(content.leaves.filter((leaf) => leaf.kind === "real").flatMap((leaf) => content.nodes[leaf.name] || []));
    const columns = [points.across, points.up].map((axis) => axis.indexOf(1));
    const x = box.left + ((event.clientX - place.left - pad) / (box.width - 2 * pad)) * (box.right - box.left);
    const y = box.top - ((event.clientY - place.top - pad) / (box.height - 2 * pad)) * (box.top - box.bottom);
    const code = Array.from(current());
    if (!columns.every((column) => real.has(column)) || selects.across.value.startsWith("PCA")) return false;
    [code[columns[0]], code[columns[1]]] = [x, y];
    go(code);
    return true;
  }

  function click(event) {
    if (!points) return;
    const point = nearest(event, 10);
    if (point >= 0) open(point);
    else if (!move(event)) { const far = nearest(event, 1e6); if (far >= 0) open(far); }
  }

  function keydown(event) {
    // arrows walk through the points from left to right, Enter opens one
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "Enter" && over >= 0) { event.preventDefault(); open(over); return; }
    if (!by || !points) return;
    event.preventDefault();
    const order = points.x.map((_, i) => i).sort((a, b) => points.x[a] - points.x[b]), at = order.indexOf(over);
    look(order[(at + by + order.length) % order.length]);
  }

  function begin() {
    const axes = Object.entries(content.map.axes), chosen = axes.map(([name]) => name);
    for (const select of [selects.across, selects.up]) for (const [name, label] of axes) select.append(element("option", { value: name }, label));
    for (const name of content.map.colours) selects.colour.append(element("option", { value: name }, name));
    selects.up.value = chosen[1] || chosen[0];
    for (const select of Object.values(selects)) select.addEventListener("change", load);
    canvas.addEventListener("pointermove", (event) => { const point = points ? nearest(event, 10) : -1; if (point !== over) look(point); });
    canvas.addEventListener("pointerleave", () => look(-1));
    canvas.addEventListener("click", click);
    canvas.addEventListener("keydown", keydown);
    new ResizeObserver(draw).observe(canvas);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTimeout(draw, 300));
    document.getElementById("map-box").hidden = false;
    return load();
  }

  return { begin, draw };
}
