"use strict";
// A control for every leaf: sliders for real columns, radio buttons for classes, checkboxes for bits.

function element(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

function makeControls(content, code, changed) {
  // content: leaves, branches, threshold; code: the numbers that the controls set; changed(): called after each change
  const shows = []; // functions that update a control from the code
  let touched = null, posterior = null;

  function touch(leaf, node) {
    document.querySelectorAll(".touched").forEach((other) => other.classList.remove("touched"));
    node.classList.add("touched");
    touched = leaf;
  }

  function slider(leaf, column, label, node) {
    const low = leaf.low[column], high = leaf.high[column], at = leaf.start + column;
    const input = element("input", { type: "range", min: low, max: high, step: "any", "aria-label": label });
    const output = element("output"), band = element("div", { class: "band", hidden: "" });
    const show = () => {
      input.value = code[at];
      output.textContent = code[at].toFixed(2);
      input.setAttribute("aria-valuetext", code[at].toFixed(2));
      band.hidden = !posterior;
      if (!posterior) return;
      const mean = posterior.mean[at], scale = posterior.scale[at], share = (v) => 100 * Math.min(1, Math.max(0, (v - low) / (high - low)));
      band.style.setProperty("--from", share(mean - scale) + "%");
      band.style.setProperty("--to", share(mean + scale) + "%");
      band.title = `posterior ${mean.toFixed(2)} ± ${scale.toFixed(2)}`;
      input.setAttribute("aria-description", band.title);
    };
    const set = (value) => {
      code[at] = Math.min(high, Math.max(low, value));
      touch(leaf, node);
      show();
      changed();
    };
    input.addEventListener("focus", () => touch(leaf, node));
    input.addEventListener("input", () => set(Number(input.value)));
    input.addEventListener("keydown", (event) => {
      // a slider with step "any" has no step for arrow keys
      const step = (high - low) / 60;
      const by = { ArrowRight: step, ArrowUp: step, ArrowLeft: -step, ArrowDown: -step, PageUp: 10 * step, PageDown: -10 * step }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      set(code[at] + by);
    });
    shows.push(show);
    return element("div", { class: "row" }, element("div", { class: "track" }, input, band), output);
  }

  function choices(leaf, node, label) {
    // a one-hot leaf has one of its classes; every bit is on or off
    const box = element("div", { class: "choices" }), one = leaf.kind === "onehot", inputs = [];
    for (let i = 0; i < leaf.width; i++) {
      const input = element("input", { type: one ? "radio" : "checkbox", name: leaf.name, value: i });
      input.addEventListener("change", () => {
        if (one) for (let j = 0; j < leaf.width; j++) code[leaf.start + j] = j === i ? 1 : 0;
        else code[leaf.start + i] = input.checked ? 1 : 0;
        touch(leaf, node);
        changed();
      });
      inputs.push(input);
      box.append(element("label", {}, input, !one && leaf.width === 1 ? "on" : String(i)));
    }
    shows.push(() => {
      const values = code.subarray(leaf.start, leaf.start + leaf.width), top = values.indexOf(Math.max(...values));
      inputs.forEach((input, i) => {
        input.checked = one ? i === top : values[i] > 0.5;
        input.parentNode.title = posterior ? `posterior ${posterior.mean[leaf.start + i].toFixed(2)}` : "";
      });
    });
    box.setAttribute("role", one ? "radiogroup" : "group");
    box.setAttribute("aria-label", label);
    return box;
  }

  function nameInput(leaf, old) {
    // the name of a leaf, which content.rename(leaf, name) stores; an empty one restores what was there
    const input = element("input", { class: "name", type: "text", maxlength: 80, value: old, "aria-label": `Name of ${leaf.name}`, title: "Edit the name", spellcheck: "false" });
    input.addEventListener("keydown", (event) => { if (event.key === "Enter") input.blur(); });
    input.addEventListener("change", () => {
      const name = input.value.trim().replace(/\s+/g, " ");
      content.rename(leaf, name);
      input.value = name || leaf.name;
    });
    return input;
  }

  function card(leaf) {
    const title = leaf.given || leaf.factor || leaf.name, label = title === leaf.name ? title : `${title} (${leaf.name})`;
    const node = element("div", { class: "leaf", role: "group", "aria-label": label });
    const nats = leaf.nats === null ? "" : `${leaf.nats.toFixed(2)} nats`;
    node.append(element("div", { class: "head" }, content.rename ? nameInput(leaf, title) : element("b", {}, title),
      element("span", { class: "quiet" }, [leaf.given && leaf.factor, title !== leaf.name && leaf.name, leaf.note, nats].filter(Boolean).join(" · "))));
    if (leaf.kind !== "real") node.append(choices(leaf, node, label));
    else for (let i = 0; i < leaf.width; i++) node.append(slider(leaf, i, leaf.width > 1 ? `${label} ${i}` : label, node));
    return node;
  }

  function branch(leaf) {
    // the outermost branch above a leaf, whose name is a prefix of the leaf's name
    return content.branches.find((name) => leaf.name.startsWith(name + ".")) || "";
  }

  function place() {
    const groups = new Map();
    for (const leaf of content.leaves.filter((leaf) => !leaf.dead)) {
      const name = branch(leaf);
      if (!groups.has(name)) groups.set(name, []);
      groups.get(name).push(leaf);
    }
    const live = document.getElementById("live");
    for (const [name, leaves] of groups) {
      if (name) live.append(element("h2", {}, name));
      leaves.forEach((leaf) => live.append(card(leaf)));
    }
    const dead = content.leaves.filter((leaf) => leaf.dead), folded = document.getElementById("folded");
    folded.hidden = !dead.length;
    folded.open = dead.length === content.leaves.length;
    document.getElementById("count").textContent = `${dead.length} ${dead.length === 1 ? "leaf has" : "leaves have"} less than ${content.threshold} nats`;
    dead.forEach((leaf) => document.getElementById("dead").append(card(leaf)));
  }

  function step(turn) {
    // move the last used leaf to fraction `turn` of a cycle; a discrete leaf cycles through its classes
    const leaf = touched || content.leaves[0];
    for (let i = 0; i < leaf.width; i++) {
      const middle = (leaf.low[i] + leaf.high[i]) / 2, reach = (leaf.high[i] - leaf.low[i]) / 2;
      if (leaf.kind === "real") { if (i === 0) code[leaf.start] = middle + reach * Math.sin(2 * Math.PI * turn); }
      else if (leaf.kind === "onehot") code[leaf.start + i] = i === Math.floor(turn * leaf.width) ? 1 : 0;
      else code[leaf.start + i] = (Math.floor(turn * 2 ** Math.min(leaf.width, 4)) >> i) & 1;
    }
    show();
    changed();
  }

  function show() {
    for (const one of shows) one();
  }

  return { place, show, step, leaf: () => touched || content.leaves[0], posterior: (found) => { posterior = found; show(); } };
}

function animation(button, step) {
  // a button that starts and stops a cycle of four seconds
  let playing = 0;
  return () => {
    if (playing) {
      cancelAnimationFrame(playing);
      playing = 0;
    } else {
      const begin = performance.now();
      const frame = (now) => {
        step(Math.max(0, (now - begin) / 4000) % 1);
        playing = requestAnimationFrame(frame);
      };
      playing = requestAnimationFrame(frame);
    }
    button.setAttribute("aria-pressed", String(Boolean(playing)));
  };
}

function keys(actions) {
  // keyboard shortcuts, except while typing or pressing a button with Space
  document.addEventListener("keydown", (event) => {
    const { tagName, type } = event.target, writing = tagName === "TEXTAREA" || (tagName === "INPUT" && !["range", "radio", "checkbox"].includes(type));
    const pressing = event.key === " " && ["BUTTON", "SUMMARY", "INPUT", "SELECT", "A"].includes(tagName) && type !== "range";
    const action = actions[event.key.toLowerCase()];
    if (event.ctrlKey || event.metaKey || event.altKey || writing || pressing || !action) return;
    event.preventDefault();
    action();
  });
}

function download(name, href) {
  element("a", { download: name, href }).click();
}
