"""Readers of what is no file: arrays in memory, options, tables for metrics, and downloads from a hostile server."""

from __future__ import annotations

import hashlib
import http.server
import threading
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from tests.fuzz import reference_parsers
from tests.fuzz.mutations import VALUES, Rng
from tests.fuzz.readers import pick, random_uint8

BODY = random_uint8(20_000).tobytes()
MD5 = "md5:" + hashlib.md5(BODY, usedforsecurity=False).hexdigest()


# arrays ------------------------------------------------------------------------------------------------------------


def hostile_array(rng: Rng, n: int) -> Any:
    """An array of some shape, type and content, most of them wrong somewhere."""
    shape = pick(
        [
            (n, 8, 8),
            (n, 8, 8),
            (n, 8, 8, 3),
            (n, 3, 8, 8),
            (n, 8),
            (n,),
            (n, 0, 8),
            (0, 8, 8),
            (n, 2, 8, 8),
            (n, 3, 8, 3),
            (),
        ],
        rng,
    )
    array: Any = rng.random(shape)
    if rng.random() < 0.3:  # a good one
        return pick([(255 * array).astype(np.uint8), array, array.astype(np.float32), array > 0.5], rng)
    kind = pick(["f4", "f8", "f2", "u1", "b", "i8", "c16", "O", "U3", "M8[s]", ">f8", "longdouble"], rng)
    with np.errstate(all="ignore"), suppress(ValueError, TypeError):
        array = (
            (array * 255).astype(kind) if kind in ("u1", "i8") else (array > 0.5) if kind == "b" else array.astype(kind)
        )
    if array.size and array.dtype.kind == "f" and rng.random() < 0.4:
        with np.errstate(over="ignore"):
            array.reshape(-1)[int(rng.integers(array.size))] = pick([np.nan, np.inf, -1, 2, 1e300, -0.0], rng)
    way = rng.random()
    return (
        array.tolist()
        if way < 0.1
        else array[::-1]
        if way < 0.2 and array.ndim
        else np.asfortranarray(array)
        if way < 0.3
        else array
    )


def hostile_labels(rng: Rng, n: int) -> Any:
    """Labels of some form, most of them wrong somewhere."""
    if rng.random() < 0.4:
        return pick([None, np.arange(n), [i % 2 for i in range(n)], {"a": ["ab"[i % 2] for i in range(n)]}], rng)
    entries = [0, 1, 2, 0.5, "a", "b", "", None, np.nan, np.inf, True, -1, [1], {"x": 1}, b"c", 10**30]
    column = [
        pick(entries[: int(rng.integers(2, len(entries)))], rng) for _ in range(n if rng.random() < 0.9 else n + 1)
    ]
    return pick(
        [
            None,
            column,
            {"a": column},
            {"a": column, "b": list(range(n))},
            np.arange(n),
            "abc",
            5,
            np.zeros((n, 2, 2)),
            {},
        ],
        rng,
    )


def make_array_input(rng: Rng, _: Path) -> Any:
    n = int(rng.integers(1, 9))
    return hostile_array(rng, n), hostile_labels(rng, n), bool(rng.random() < 0.3), bool(rng.random() < 0.3)


def read_array_input(inputs: Any) -> Any:
    from unbraid.data import of
    from unbraid.data.custom.images import from_arrays

    array, labels, partial, stream = inputs
    return (of if stream else from_arrays)(array, labels, partial=partial)


def array_input_difference(inputs: Any, data: Any) -> str:
    array, labels, _, _ = inputs
    array = np.asarray(array)
    if array.ndim == 2:
        return "" if np.allclose(data.pixels(np.arange(len(array)))[:, :, 0, 0], array, atol=1e-6) else "other rows"
    wrong = reference_parsers.images_difference(data, array if array.dtype == np.uint8 else array.astype(np.float64))
    if wrong or labels is None:
        return wrong
    return reference_parsers.labels_difference(
        data, dict(labels) if isinstance(labels, dict) else {"label": list(labels)}
    )


def make_metric_input(rng: Rng, _: Path) -> Any:
    n = int(rng.integers(20, 60))
    codes, factors = rng.normal(size=(n, 3)), rng.integers(0, 3, (n, 2)).astype(object if rng.random() < 0.1 else int)
    with np.errstate(over="ignore"):
        codes = codes * pick([1, 1, 1e-300, 1e300, 1e30, 0], rng)
    if rng.random() < 0.5:
        codes[int(rng.integers(n)), int(rng.integers(3))] = pick([np.nan, np.inf, 1e308, -1e308, 0], rng)
    if rng.random() < 0.3:
        factors[:, 0] = pick([0, -1, 10**9], rng)
    name = pick(
        ["mig", "sap", "dci", "modularity", "mcc", "beta_vae", "factor_vae", "explicitness", "total_correlation"], rng
    )
    return name, codes.astype(pick(["f8", "f4", "f2"], rng)) if rng.random() < 0.5 else codes, factors


def compute_score(inputs: Any) -> Any:
    import warnings

    from unbraid import metrics

    name, codes, factors = inputs
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        metric = metrics.METRICS[name]
        return metric(codes) if metric.needs == "posteriors" else metric(codes, factors)


def score_difference(inputs: Any, score: Any) -> str:
    value = score.value
    bounded = inputs[0] == "total_correlation" or -1e-6 <= value <= 1 + 1e-6 if value is not None else True
    return "" if value is None or (np.isfinite(value) and bounded) else f"{inputs[0]} = {value!r}"


OPTIONS = [
    "n",
    "seed",
    "split",
    "test",
    "noise",
    "size",
    "hands",
    "orientation",
    "subsample",
    "hold_out",
    "held_out",
    "only",
    "dedupe",
    "correlate",
    "path",
    "levels",
    "x",
]
SETS = [
    "sprites32",
    "moons",
    "rings",
    "clusters",
    "pinwheel",
    "linear_factors",
    "ica",
    "xy_blocks",
    "digits",
    "mnist",
    "images",
    "vectors",
]
SUBSET_RULES = [
    {"shape": "heart"},
    {"x": {"min": 0.5}},
    [{"shape": "heart"}, {"y": 0}],
    {"first": "x", "second": "y", "sigma": 0.2},
    {"n": 9, "seed": 1},
    "train",
    "test",
    0.3,
]


def make_options(rng: Rng, _: Path) -> Any:
    name = pick(SETS, rng)
    if rng.random() < 0.4:  # what makes sense, together or not
        sense = {
            "split": pick(["train", "test", "all"], rng),
            "test": 0.3,
            "seed": 3,
            "subsample": 7,
            "dedupe": True,
        }
        return name, {key: sense[key] for key in sense if rng.random() < 0.5}
    chosen = [pick(OPTIONS, rng) for _ in range(int(rng.integers(1, 4)))]
    return name, {option: pick([*VALUES, *SUBSET_RULES, *SUBSET_RULES], rng) for option in chosen}


def load_with_options(inputs: Any) -> Any:
    from unbraid.data import load

    return load(inputs[0], **inputs[1])


def options_difference(inputs: Any, data: Any) -> str:
    chosen = inputs[1]
    if not len(data) or not np.isfinite(data.pixels([0, len(data) - 1])).all():
        return "no images, or pixels that are no numbers"
    if type(chosen.get("subsample")) is int and len(data) != chosen["subsample"]:
        return f"{len(data)} images of {chosen['subsample']}"
    if "n" in chosen and not set(chosen) & {
        "subsample",
        "split",
        "hold_out",
        "held_out",
        "only",
        "correlate",
        "dedupe",
    }:
        return "" if len(data) == chosen["n"] else f"{len(data)} rows of {chosen['n']}"
    return ""


# downloads ---------------------------------------------------------------------------------------------------------

LENGTHS = [
    None,
    None,
    None,
    str(len(BODY)),
    "²",
    "-1",
    "1e5",
    "9" * 5000,
    "5",
    str(len(BODY) + 9),
    "12, 12",
    "0",
    " 7 ",
    "0x1F",
    "٣",
]
LOCATIONS = [
    "/good",
    "/good",
    "http://[::1",
    "http://h:p/",
    "ftp://127.0.0.1/",
    "file:///etc/passwd",
    "//",
    "",
    "http://",
    "\xff",
    "/loop",
    "http://127.0.0.1:9/",
    "javascript:x",
    "http://a b/",
]
RANGES = [
    None,
    "bytes 0-9/10",
    "bytes ²-9/10",
    "bytes x",
    f"bytes 100-{len(BODY) - 1}/{len(BODY)}",
    "bytes */5",
    "bytes 99999999999999999999-",
    "",
]
RESPONSES: dict[str, dict[str, Any]] = {}


class Handler(http.server.BaseHTTPRequestHandler):
    """Serves what the plan of an address says, however senseless."""

    protocol_version = "HTTP/1.0"

    def do_GET(self) -> None:
        with suppress(OSError):
            self.respond()

    def respond(self) -> None:
        plan = RESPONSES.get(self.path.strip("/"), {"status": 200, "body": BODY})
        if self.path == "/loop":
            plan = {"status": 302, "headers": [("Location", "/loop")], "body": b""}
        if plan.get("raw") is not None:
            self.wfile.write(plan["raw"])
            return
        self.wfile.write(f"HTTP/1.0 {plan['status']} {plan.get('reason', 'OK')}\r\n".encode("latin-1", "replace"))
        for name, text in plan.get("headers", []):
            self.wfile.write(f"{name}: {text}\r\n".encode("utf-8", "replace"))
        self.wfile.write(b"\r\n" + plan["body"])

    def log_message(self, *_: Any) -> None:
        """Nothing is logged."""


@cache
def server_url() -> str:
    """The address of the server, started on first use; it ends with the process."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}"


def make_download(rng: Rng, folder: Path) -> Any:
    name = f"case{int(rng.integers(10**9))}"
    RESPONSES.clear()
    body = pick(
        [
            BODY,
            BODY,
            BODY[:5000],
            BODY + b"more",
            b"",
            b"<html>log in</html>",
            BODY[100:],
            random_uint8(20_000, seed=1).tobytes(),
        ],
        rng,
    )
    headers = [("Content-Length", text) for text in [pick(LENGTHS, rng)] if text is not None]
    headers += [("Content-Range", text) for text in [pick(RANGES, rng)] if text is not None and rng.random() < 0.4]
    status = pick([200, 200, 200, 206, 206, 301, 302, 307, 404, 416, 500, 204, 304, 999, 100], rng)
    if status in (301, 302, 307):
        headers.append(("Location", pick(LOCATIONS, rng)))
    headers += (
        [("X" * 70_000, "y")]
        if rng.random() < 0.02
        else [(f"H{i}", "v") for i in range(200)]
        if rng.random() < 0.02
        else []
    )
    headers += [("Transfer-Encoding", "chunked")] if rng.random() < 0.05 else []
    raw = pick(
        [
            b"",
            b"\0" * 50,
            b"HTTP/9.9 x\r\n\r\n",
            b"SSH-2.0-x\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length",
            b"HTTP/1.1 \xc2\xb2\r\n\r\n",
        ],
        rng,
    )
    RESPONSES[name] = {
        "status": status,
        "reason": pick(["OK", "", "²", "a" * 500], rng),
        "headers": headers,
        "body": body,
    }
    if rng.random() < 0.1:
        RESPONSES[name]["raw"] = raw
    part = pick([None, None, None, BODY[:100], BODY[:19_000], random_uint8(300, seed=2).tobytes(), BODY + b"x"], rng)
    if part is not None:
        (folder / "x.bin.part").write_bytes(part)
    return folder, name, bool(rng.random() < 0.3), int(pick([0, 0, len(BODY)], rng))


def read_download(inputs: Any) -> bytes:
    from unbraid.data.cache.checksums import RemoteFile
    from unbraid.data.cache.download import fetch

    folder, name, mirrored, size = inputs
    mirrors = (RemoteFile(f"{server_url()}/good", MD5, size),) if mirrored else ()
    return fetch(
        RemoteFile(f"{server_url()}/{name}", MD5, size, mirrors), folder / "x.bin", quiet=True, timeout=2
    ).read_bytes()


def download_difference(inputs: Any, found: bytes) -> str:
    left = sorted(p.name for p in inputs[0].iterdir() if not p.name.endswith((".lock", ".checked")))
    return "" if found == BODY and left == ["x.bin"] else f"{len(found)} other bytes, files {left}"


def download_may_fail(inputs: Any) -> bool:
    """A good mirror must serve whatever the first place did."""
    return not inputs[2]
