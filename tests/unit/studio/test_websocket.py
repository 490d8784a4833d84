"""The WebSocket protocol without a browser: requests, responses, uploaded pictures, GIFs, refused input."""

from __future__ import annotations

import io
import json
import struct

import numpy as np
import pytest
from PIL import Image

from unbraid.core.errors import UnbraidError
from unbraid.studio.explorer import MAX_UPLOAD_BYTES
from unbraid.studio.traversal_gif import leaf_gif, wall_gif
from unbraid.studio.websocket import handle_message


def send_message(library, **request):
    """Header and images of a response."""
    raw = handle_message(library, json.dumps(request))
    size = struct.unpack("<I", raw[:4])[0]
    head, at, images = json.loads(raw[4 : 4 + size]), 4 + size, []
    for shape in head["images"]:
        n = int(np.prod(shape))
        images.append(np.frombuffer(raw[at : at + n], np.uint8).reshape(shape))
        at += n
    assert at == len(raw)
    return head, images


def to_pixels(images):
    """Decoded images as pixels of a canvas."""
    return np.rint(np.clip(images, 0, 1) * 255).astype(np.uint8).transpose(0, 2, 3, 1)


@pytest.mark.parametrize("name", ["vae", "hfvae_discrete", "info_gan"])
def test_a_code_is_decoded_as_by_the_run(library, name):
    run = library.run(name)
    head, images = send_message(library, ask="open", run=name)
    z = np.array(head["start"])
    assert np.array_equal(images[0], to_pixels(run.decode(z))[0])
    z[0] += 1
    head, images = send_message(library, ask="decode", run=name, z=z.tolist(), n=7)
    assert head["n"] == 7
    assert np.abs(images[0].astype(int) - to_pixels(run.decode(z))[0].astype(int)).max() <= 1


def test_an_image_comes_with_its_posterior(library):
    import torch

    run = library.run("vae")
    head, images = send_message(library, ask="image", run="vae", index=5)
    x = run.dataset().pixels(5)
    q = run.model.posterior(torch.from_numpy(x))
    assert np.allclose(head["mean"], q.mean[0].numpy(), atol=1e-6)
    assert np.allclose(head["scale"], q.scale[0].numpy(), atol=1e-6)
    assert np.array_equal(images[0], to_pixels(x)[0])
    assert np.array_equal(images[1], to_pixels(run.decode(head["mean"]))[0])
    assert head["label"].startswith("class ")


def test_draws_from_the_prior_follow_their_seed(library):
    first = send_message(library, ask="prior", run="vae", seed=1)[0]["z"]
    assert first == send_message(library, ask="prior", run="vae", seed=1)[0]["z"]
    assert first != send_message(library, ask="prior", run="vae", seed=2)[0]["z"]


@pytest.mark.parametrize("mode", ["prior", "data", "image"])
def test_the_wall_has_a_row_per_leaf_and_each_cell_is_its_code(library, mode):
    run = library.run("hfvae_discrete")
    head, images = send_message(library, ask="wall", run="hfvae_discrete", mode=mode)
    widths = {leaf.name: leaf for leaf in run.model.tree.leaves}
    assert {row["leaf"] for row in head["rows"]} == set(widths)
    at = 0
    for row in head["rows"]:
        leaf = widths[row["leaf"]]
        if leaf.kind == "onehot":
            assert len(row["labels"]) == leaf.width
        codes = np.array(row["codes"])
        moved = np.ptp(codes, axis=0) > 0
        assert set(np.flatnonzero(moved)) <= set(run.model.tree.columns(row["leaf"]))
        truth = to_pixels(run.decode(codes))
        for i in range(len(codes)):
            assert np.abs(images[at].astype(int) - truth[i].astype(int)).max() <= 1
            at += 1
    assert at == len(images)


@pytest.mark.parametrize(
    "request_fields",
    [
        {"ask": "decode", "run": "vae", "z": [1.0]},
        {"ask": "decode", "run": "vae", "z": ["a", 1, 2]},
        {"ask": "decode", "run": "vae", "z": [1e30, 0, 0]},
        {"ask": "decode", "run": "vae", "z": None},
        {"ask": "decode", "run": "../outside", "z": [0, 0, 0]},
        {"ask": "image", "run": "vae", "index": 10**9},
        {"ask": "image", "run": "vae", "index": "../../etc/passwd"},
        {"ask": "strip", "run": "vae", "count": 10**6},
        {"ask": "wall", "run": "vae", "mode": "no"},
        {"ask": "prior", "run": "vae", "seed": -1},
        {"ask": "__class__", "run": "vae"},
        {"ask": ["open"], "run": "vae"},
    ],
    ids=str,
)
def test_bad_requests_get_an_error_message(library, request_fields):
    head, images = send_message(library, **request_fields)
    assert head["error"]
    assert "Traceback" not in head["error"]
    assert images == []


@pytest.mark.parametrize("raw", ["", "[", "[1]", "null", '{"ask": NaN}', "[" * 5000])
def test_malformed_requests_get_an_error_message(library, raw):
    assert b'"error"' in handle_message(library, raw)


def png_bytes(size, mode="L", **options):
    """A PNG file as bytes."""
    out = io.BytesIO()
    Image.new(mode, size, 128).save(out, "PNG", **options)
    return out.getvalue()


def test_an_uploaded_picture_is_cropped_resized_and_encoded(library):
    encoded = library.explorer("vae").uploaded_image(png_bytes((50, 30), "RGB"))
    assert encoded.image.shape == (8, 8, 1)
    assert np.isfinite(encoded.mean).all()


@pytest.mark.parametrize(
    "raw",
    [b"", b"not a picture", b"<svg xmlns='http://www.w3.org/2000/svg'><script>1</script></svg>",
     b"\x89PNG\r\n\x1a\n" + b"\0" * 50, png_bytes((8, 8))[:40],
     b"%!PS-Adobe-3.0 EPSF\n(run) system", b"\x80\x04cos\nsystem\n", b"\0" * (MAX_UPLOAD_BYTES + 1)],
    ids=["empty", "text", "svg", "damaged", "cut", "postscript", "pickle", "huge"],
)  # fmt: skip
def test_hostile_files_are_refused_with_a_message(library, raw):
    with pytest.raises(UnbraidError):
        library.explorer("vae").uploaded_image(raw)


def test_a_small_file_of_many_pixels_is_refused(library):
    with pytest.raises(UnbraidError, match="decompression|pixels|exceeds"):
        library.explorer("vae").uploaded_image(png_bytes((10000, 10000), "1"))


def test_a_gif_moves_one_leaf(library):
    explorer = library.explorer("hfvae_discrete")
    gif = Image.open(io.BytesIO(leaf_gif(explorer, explorer.start_code, "digit")))
    assert gif.n_frames == next(leaf.width for leaf in explorer.leaf_summaries if leaf.name == "digit")
    gif.close()
    with pytest.raises(UnbraidError, match="no such leaf"):
        leaf_gif(explorer, explorer.start_code, "../x")


def test_a_gif_of_the_wall_moves_every_live_leaf(library):
    explorer = library.explorer("hfvae_discrete")
    gif = Image.open(io.BytesIO(wall_gif(explorer, explorer.start_code, "data")))
    assert gif.n_frames >= 2 * 9 - 2
    gif.close()
    with pytest.raises(UnbraidError, match="range"):
        wall_gif(explorer, explorer.start_code, "no")


def test_a_wall_like_another_run_has_its_order_and_signs(library):
    head, _ = send_message(library, ask="wall", run="vae", mode="data", like="vae")
    for row in head["rows"]:
        assert row["partner"] == [row["leaf"], row["column"]]
        assert row["correlation"] == pytest.approx(1)
    assert "error" in send_message(library, ask="wall", run="vae", mode="data", like="../outside")[0]
