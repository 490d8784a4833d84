"use strict";
// A decoder of plain layers. An image is {c, h, w, x}, where x has the channels of a pixel next to each other; a vector is 1×1.

function halves(text) {
  // base64 of little-endian half-precision numbers → Float32Array
  const raw = atob(text), n = raw.length / 2, out = new Float32Array(n);
  const table = new Float32Array(65536);
  for (let i = 0; i < 65536; i++) {
    const sign = i & 0x8000 ? -1 : 1, power = (i >> 10) & 31, rest = i & 1023;
    table[i] = sign * (power === 0 ? rest * 2 ** -24 : power === 31 ? (rest ? NaN : Infinity) : (1 + rest / 1024) * 2 ** (power - 15));
  }
  for (let i = 0; i < n; i++) out[i] = table[raw.charCodeAt(2 * i) | (raw.charCodeAt(2 * i + 1) << 8)];
  return out;
}

function unpack(layers, numbers) {
  // slice the arrays of the layers from one block of numbers and undo their scaling
  for (const layer of layers) {
    for (const name of ["weight", "bias", "scale", "shift"]) {
      if (!layer[name]) continue;
      const { at, shape, power } = layer[name], size = shape.reduce((a, b) => a * b, 1);
      layer[name + "Shape"] = shape;
      layer[name] = numbers.slice(at, at + size).map((v) => v * 2 ** power);
    }
    if (layer.inner) unpack(layer.inner, numbers);
  }
  return layers;
}

function conv(layer, a) {
  // every output pixel is a sum over kernel taps; `up` is a transposed convolution
  const [ky, kx, out, into] = layer.weightShape, { stride, pad } = layer;
  const h = layer.up ? (a.h - 1) * stride - 2 * pad + ky + layer.output_pad_y : Math.floor((a.h + 2 * pad - ky) / stride) + 1;
  const w = layer.up ? (a.w - 1) * stride - 2 * pad + kx + layer.output_pad_x : Math.floor((a.w + 2 * pad - kx) / stride) + 1;
  const near = (o, k, size) => {
    const i = layer.up ? (o + pad - k) / stride : o * stride - pad + k;
    return Number.isInteger(i) && i >= 0 && i < size ? i : -1;
  };
  if (!layer.rows || layer.rows.length !== h || layer.columns.length !== w) {
    layer.rows = taps(h, ky, a.h, near);
    layer.columns = taps(w, kx, a.w, near);
  }
  const y = new Float32Array(h * w * out), sums = new Float64Array(out);
  for (let oy = 0; oy < h; oy++) {
    const rows = layer.rows[oy];
    for (let ox = 0; ox < w; ox++) {
      const columns = layer.columns[ox];
      sums.set(layer.bias);
      for (let r = 0; r < rows.length; r += 2)
        for (let c = 0; c < columns.length; c += 2)
          accumulate(sums, out, a.x, (rows[r + 1] * a.w + columns[c + 1]) * into, into, layer.weight, (rows[r] * kx + columns[c]) * out * into);
      y.set(sums, (oy * w + ox) * out);
    }
  }
  return { c: out, h, w, x: y };
}

function accumulate(sums, out, x, from, into, W, at) {
  // sums[o] += Σ_i x[from + i] · W[at + o·into + i], four outputs at a time, so that each x is read once for all four
  let o = 0;
  for (; o + 3 < out; o += 4, at += 4 * into) {
    let s0 = 0, s1 = 0, s2 = 0, s3 = 0;
    for (let i = 0; i < into; i++) {
      const v = x[from + i], k = at + i;
      s0 += v * W[k];
      s1 += v * W[k + into];
      s2 += v * W[k + 2 * into];
      s3 += v * W[k + 3 * into];
    }
    sums[o] += s0;
    sums[o + 1] += s1;
    sums[o + 2] += s2;
    sums[o + 3] += s3;
  }
  for (; o < out; o++, at += into) {
    let s = 0;
    for (let i = 0; i < into; i++) s += x[from + i] * W[at + i];
    sums[o] += s;
  }
}

function taps(size, kernel, from, near) {
  // for every output position, the taps inside the input: tap, position, tap, position …
  const found = [];
  for (let o = 0; o < size; o++) {
    const here = [];
    for (let k = 0; k < kernel; k++) if (near(o, k, from) >= 0) here.push(k, near(o, k, from));
    found.push(Int32Array.from(here));
  }
  return found;
}

function each(a, f) {
  return { ...a, x: a.x.map(f) };
}

function reshape(l, a) {
  // a flat vector is in the order channel, row, column
  const x = new Float32Array(a.x.length), n = l.h * l.w;
  for (let c = 0; c < l.c; c++) for (let p = 0; p < n; p++) x[p * l.c + c] = a.x[c * n + p];
  return { c: l.c, h: l.h, w: l.w, x };
}

function flatten(l, a) {
  const x = new Float32Array(a.x.length), n = a.h * a.w;
  for (let c = 0; c < a.c; c++) for (let p = 0; p < n; p++) x[c * n + p] = a.x[p * a.c + c];
  return { c: x.length, h: 1, w: 1, x };
}

function pad(l, a) {
  const h = a.h + l.top + l.bottom, w = a.w + l.left + l.right, x = new Float32Array(h * w * a.c);
  for (let y = 0; y < a.h; y++) x.set(a.x.subarray(y * a.w * a.c, (y + 1) * a.w * a.c), ((y + l.top) * w + l.left) * a.c);
  return { c: a.c, h, w, x };
}

function coordinates(l, a) {
  // repeat one vector at every pixel and add weights times the pixel's coordinates in −1 … 1 (x, then y)
  const x = new Float32Array(l.h * l.w * a.c), step = (i, n) => (n > 1 ? -1 + (2 * i) / (n - 1) : -1);
  for (let y = 0, at = 0; y < l.h; y++)
    for (let u = 0; u < l.w; u++)
      for (let c = 0; c < a.c; c++) x[at++] = a.x[c] + l.weight[2 * c] * step(u, l.w) + l.weight[2 * c + 1] * step(y, l.h);
  return { c: a.c, h: l.h, w: l.w, x };
}

function half(l, a) {
  // means, then log scales: keep the means
  const c = a.c / 2, x = new Float32Array(a.h * a.w * c);
  for (let p = 0; p < a.h * a.w; p++) x.set(a.x.subarray(p * a.c, p * a.c + c), p * c);
  return { c, h: a.h, w: a.w, x };
}

function levels(l, a) {
  // the mean over a softmax of equally spaced levels: map = level · channels + channel
  const c = a.c / l.levels, x = new Float32Array(a.h * a.w * c);
  for (let p = 0; p < a.h * a.w; p++)
    for (let k = 0; k < c; k++) {
      let top = -Infinity, sum = 0, mean = 0;
      for (let v = 0; v < l.levels; v++) top = Math.max(top, a.x[p * a.c + v * c + k]);
      for (let v = 0; v < l.levels; v++) {
        const e = Math.exp(a.x[p * a.c + v * c + k] - top);
        sum += e;
        mean += (e * v) / (l.levels - 1);
      }
      x[p * c + k] = mean / sum;
    }
  return { c, h: a.h, w: a.w, x };
}

function skip(l, a) {
  const b = run(l.inner, a);
  return { ...b, x: b.x.map((v, i) => v + a.x[i]) };
}

function nearest(l, a) {
  const x = new Float32Array(l.h * l.w * a.c);
  for (let y = 0; y < l.h; y++)
    for (let u = 0; u < l.w; u++) {
      const from = (Math.floor((y * a.h) / l.h) * a.w + Math.floor((u * a.w) / l.w)) * a.c;
      x.set(a.x.subarray(from, from + a.c), (y * l.w + u) * a.c);
    }
  return { c: a.c, h: l.h, w: l.w, x };
}

function norm(l, a) {
  let mean = 0, square = 0;
  for (const v of a.x) mean += v / a.x.length;
  for (const v of a.x) square += (v - mean) ** 2 / a.x.length;
  const by = 1 / Math.sqrt(square + l.eps);
  return each(a, (v, i) => (v - mean) * by * l.scale[i % a.c] + l.shift[i % a.c]);
}

function erf(v) {
  // series near 0, continued fraction in the tails; exact to rounding
  const a = Math.abs(v);
  if (a < 2.5) {
    let term = v, sum = v;
    for (let n = 1; n < 60 && Math.abs(term) > 1e-17; n++) {
      term *= (-v * v) / n;
      sum += term / (2 * n + 1);
    }
    return (2 / Math.sqrt(Math.PI)) * sum;
  }
  let f = 0;
  for (let n = 60; n > 0; n--) f = n / 2 / (a + f);
  return Math.sign(v) * (1 - Math.exp(-a * a) / (Math.sqrt(Math.PI) * (a + f)));
}

const sigmoid = (v) => 1 / (1 + Math.exp(-v));
const OPS = {
  conv, reshape, flatten, pad, coordinates, half, levels, skip, nearest, norm,
  affine: (l, a) => each(a, (v, i) => v * l.scale[i % a.c] + l.shift[i % a.c]),
  relu: (l, a) => each(a, (v) => (v > 0 ? v : 0)),
  leaky: (l, a) => each(a, (v) => (v > 0 ? v : v * l.slope)),
  tanh: (l, a) => each(a, Math.tanh),
  sigmoid: (l, a) => each(a, sigmoid),
  elu: (l, a) => each(a, (v) => (v > 0 ? v : l.alpha * Math.expm1(v))),
  silu: (l, a) => each(a, (v) => v * sigmoid(v)),
  softplus: (l, a) => each(a, (v) => (v * l.beta > 20 ? v : Math.log1p(Math.exp(v * l.beta)) / l.beta)),
  gelu: (l, a) => each(a, l.tanh
    ? (v) => 0.5 * v * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (v + 0.044715 * v ** 3)))
    : (v) => 0.5 * v * (1 + erf(v / Math.SQRT2))),
  continuous_bernoulli: (l, a) => each(a, (v) =>
    Math.abs(v) < 0.1 ? 0.5 + v / 12 - v ** 3 / 720 : -1 / Math.expm1(-v) - 1 / v),
};

function run(layers, a) {
  for (const layer of layers) a = OPS[layer.op](layer, a);
  return a;
}

function decode(layers, code) {
  return run(layers, { c: code.length, h: 1, w: 1, x: Float32Array.from(code) });
}

function paint(canvas, image) {
  // one or three channels as an image, other channels side by side, a vector as bars
  const { c, h, w, x } = image;
  if (h * w === 1) return bars(canvas, x);
  const colour = c === 3, panes = colour ? 1 : c;
  canvas.width = w * panes;
  canvas.height = h;
  const pen = canvas.getContext("2d"), sheet = pen.createImageData(w * panes, h);
  for (let y = 0, at = 0; y < h; y++)
    for (let u = 0; u < w * panes; u++)
      for (let k = 0; k < 4; k++, at++) {
        const from = (y * w + (u % w)) * c;
        sheet.data[at] = k === 3 ? 255 : Math.round(255 * x[from + (colour ? k : Math.floor(u / w))]);
      }
  pen.putImageData(sheet, 0, 0);
}

function bars(canvas, x) {
  const most = Math.max(3, ...Array.from(x, Math.abs)), pen = canvas.getContext("2d");
  canvas.width = canvas.height = 240;
  pen.fillStyle = "#101318";
  pen.fillRect(0, 0, 240, 240);
  pen.fillStyle = "#7db4ec";
  x.forEach((v, i) => pen.fillRect(((i + 0.15) * 240) / x.length, 120 - Math.max(0, v / most) * 110, (0.7 * 240) / x.length, (Math.abs(v) / most) * 110 + 1));
}
