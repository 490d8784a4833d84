"use strict";
// One WebSocket per tab. ask() resolves to {head, images}; every image is {h, w, c, x} in bytes.

const live = (() => {
  let socket = null, count = 0, waiting = new Map();

  function opened() {
    if (socket && socket.readyState <= 1) return socket;
    socket = new WebSocket(`ws://${location.host}/studio/live`);
    socket.binaryType = "arraybuffer";
    socket.onmessage = (event) => {
      const { head, images } = unpacked(event.data), done = waiting.get(head.n);
      waiting.delete(head.n);
      if (done) head.error ? done.reject(new Error(head.error)) : done.resolve({ head, images });
    };
    socket.onclose = () => {
      for (const done of waiting.values()) done.reject(new Error("The studio does not respond. Is it still running?"));
      waiting.clear();
    };
    return socket;
  }

  function ask(question) {
    return new Promise((resolve, reject) => {
      const n = ++count, line = opened(), send = () => line.send(JSON.stringify({ ...question, n }));
      waiting.set(n, { resolve, reject });
      if (line.readyState === 1) send();
      else line.addEventListener("open", send, { once: true });
    });
  }
  return { ask };
})();

function unpacked(buffer) {
  const size = new DataView(buffer).getUint32(0, true);
  const head = JSON.parse(new TextDecoder().decode(new Uint8Array(buffer, 4, size)));
  let at = 4 + size;
  const images = head.images.map(([h, w, c]) => {
    const x = new Uint8Array(buffer, at, h * w * c);
    at += h * w * c;
    return { h, w, c, x };
  });
  return { head, images };
}

function show_bytes(canvas, { h, w, c, x }) {
  // grey, RGB, or other channels next to each other
  const colour = c === 3, panes = colour ? 1 : c;
  if (canvas.width !== w * panes) canvas.width = w * panes;
  if (canvas.height !== h) canvas.height = h;
  const pen = canvas.getContext("2d"), sheet = pen.createImageData(w * panes, h);
  for (let y = 0, at = 0; y < h; y++)
    for (let u = 0; u < w * panes; u++)
      for (let k = 0; k < 4; k++, at++) sheet.data[at] = k === 3 ? 255 : x[(y * w + (u % w)) * c + (colour ? k : Math.floor(u / w))];
  pen.putImageData(sheet, 0, 0);
}

function tell(text, wrong = false) {
  const box = document.getElementById("told");
  box.textContent = text;
  box.classList.toggle("wrong", wrong);
}

function asked_run() {
  return new URLSearchParams(location.search).get("run") || "";
}

function ready(id) {
  // NiceGUI builds the page with its own script: wait until the element exists
  return new Promise((resolve) => {
    const look = () => (document.getElementById(id) ? resolve() : requestAnimationFrame(look));
    look();
  });
}
