"""The drawing of sprites, against a slow drawing of one pixel at a time and against published numbers."""

from __future__ import annotations

import numpy as np
import pytest

from unbraid.data import load
from unbraid.data.rendering import sprite_outlines
from unbraid.data.sets import dsprites


def rasterise_slowly(points: np.ndarray, x: float, y: float, size: int) -> np.ndarray:
    """Even-odd rule, pixel by pixel, in integers of 1/256 pixel."""
    corner = [
        (int(np.floor(256 * float(np.float32(x + a)) + 0.5)), int(np.floor(256 * float(np.float32(y + b)) + 0.5)))
        for a, b in points
    ]
    image = np.zeros((size, size), bool)
    for row in range(size):
        for column in range(size):
            px, py, inside = column * 256 + 128, row * 256 + 128, False
            for (ax, ay), (bx, by) in zip(corner, corner[1:] + corner[:1], strict=True):
                if (ay < py) != (by < py):  # the edge crosses this row: at or left of the centre?
                    left = (px - ax) * (by - ay) - (py - ay) * (bx - ax)
                    inside ^= left >= 0 if by > ay else left <= 0
            image[row, column] = inside
    return image


@pytest.mark.parametrize("shape", sprite_outlines.SHAPES)
def test_drawing_agrees_with_the_slow_one(shape):
    rng = np.random.default_rng(3)
    for _ in range(3):
        points = sprite_outlines.rotate_2d(sprite_outlines.outline(shape), rng.uniform(0, 6)) * rng.uniform(0.5, 1) / 2
        x, y = rng.uniform(6, 26, 2)
        drawn = np.unpackbits(
            sprite_outlines.rasterise_outline(points, np.array([x]), np.array([y]), 32)[0, 0], axis=-1
        ).astype(bool)
        assert np.array_equal(drawn, rasterise_slowly(points, x, y, 32))


def test_positions_are_the_axes():
    points, xs, ys = sprite_outlines.outline("heart"), np.array([16.0, 40.3]), np.array([20.5, 31.0, 47.9])
    block = sprite_outlines.rasterise_outline(points, xs, ys, 64)
    assert block.shape == (2, 3, 64, 8)
    for i, x in enumerate(xs):
        for k, y in enumerate(ys):
            assert np.array_equal(
                block[i, k], sprite_outlines.rasterise_outline(points, np.array([x]), np.array([y]), 64)[0, 0]
            )


def test_areas_at_rest_are_those_of_the_original():
    areas = {
        "square": [100, 144, 196, 256, 324, 400],
        "ellipse": [76, 104, 144, 184, 228, 288],
        "heart": [58, 84, 108, 140, 182, 222],
    }
    at = np.array([16.0])
    for shape, expected in areas.items():
        found = [
            int(
                np.unpackbits(
                    sprite_outlines.rasterise_outline(sprite_outlines.outline(shape) * scale, at, at, 64)
                ).sum()
            )
            for scale in dsprites.SCALES
        ]
        assert found == expected


def test_turning_is_counter_clockwise_on_the_screen():
    assert np.allclose(
        sprite_outlines.rotate_2d(np.array([[1.0, 0.0]]), np.pi / 2), [[0, -1]]
    )  # right goes up, and y is down


def test_every_published_frame_is_reproduced(reference_data):
    frames, latents = (
        np.load(reference_data / "dsprites/gif_frames.npy"),
        np.load(reference_data / "dsprites/gif_latents.npy"),
    )
    wrong = 0
    for frame, (s, i, k, x, y) in zip(frames, latents, strict=True):
        points = (
            sprite_outlines.rotate_2d(sprite_outlines.outline(sprite_outlines.SHAPES[s]), dsprites.ANGLES[k])
            * dsprites.SCALES[i]
        )
        drawn = sprite_outlines.rasterise_outline(points, dsprites.POSITIONS[[x]], dsprites.POSITIONS[[y]], 64)[0, 0]
        wrong += int((np.unpackbits(drawn, axis=-1) != (frame > 0)).sum())
    assert len(frames) == 320
    assert wrong == 0


@pytest.mark.slow
def test_the_whole_set_has_the_known_total_and_duplicates():
    data = load("dsprites")
    bits = data.images.array
    total = sum(int(np.unpackbits(bits[i : i + 65536]).sum(dtype=np.int64)) for i in range(0, len(bits), 65536))
    assert total == 128_328_871
    small = load("dsprites", dedupe=True)
    ends = data.factors.index([[0, 0, 0, 5, 5], [0, 0, 39, 5, 5]])
    assert np.array_equal(bits[ends[0]], bits[ends[1]]), "orientations 0 and 39 are one image"
    assert len(small) < 39 / 40 * len(data)


def test_the_small_set_with_orientation():
    data = load("sprites32", orientation=True)
    assert data.factors.sizes == (3, 6, 20, 16, 16)
    plain = load("sprites32")
    index = data.factors.index([[2, 3, 0, 7, 9]])
    assert np.array_equal(data.pixels(index), plain.pixels(plain.factors.index([[2, 3, 7, 9]])))
    assert len(np.unique(data.images.array[data.factors.index([[2, 5, k, 7, 7] for k in range(20)])], axis=0)) == 20


@pytest.mark.parametrize("variant", ["color", "noisy", "scream"])
def test_variants_are_functions_of_the_index(variant, monkeypatch):
    from unbraid.data.rendering.dsprites_variants import SpriteVariant

    plain = load("sprites32")
    dressed = SpriteVariant(plain.images, variant, seed=1)
    data = type(plain)("dressed", dressed, plain.factors)
    a, b = data.pixels([5, 900, 77]), data.pixels([900])
    assert data.shape == (3, 32, 32)
    assert np.array_equal(a[1], b[0])
    other = type(plain)("other", SpriteVariant(plain.images, variant, seed=2), plain.factors)
    assert not np.array_equal(a[1], other.pixels([900])[0])
    sprite = plain.pixels([5, 900, 77])[:, 0] > 0
    if variant == "color":
        assert a.transpose(0, 2, 3, 1)[~sprite].max() == 0
        assert a.transpose(0, 2, 3, 1)[sprite].min() >= 0.5
    if variant == "noisy":
        assert a.transpose(0, 2, 3, 1)[sprite].min() == 1
        noise = a.transpose(0, 2, 3, 1)[~sprite]
        assert abs(noise.mean() - 0.5) < 0.02
        assert abs(noise.std() - 12**-0.5) < 0.02


def test_the_original_npz_and_its_differences(tmp_path, monkeypatch):
    from unbraid.data.factors import Factors

    monkeypatch.setattr(dsprites, "FACTORS", Factors.of({"shape": 3, "x": 20}))
    images = np.random.default_rng(0).integers(0, 2, (60, 64, 64)).astype(np.uint8)
    np.savez_compressed(tmp_path / "d.npz", imgs=images, metadata=np.array({"pickled": 1}, dtype=object))
    data = load("dsprites", path=str(tmp_path / "d.npz"))
    assert np.array_equal(data.pixels(np.arange(60))[:, 0], images)
    ours = images.copy()
    ours[3, 10, 10] ^= 1
    monkeypatch.setattr(dsprites, "_load_regenerated", lambda: np.packbits(ours.reshape(60, -1), axis=1))
    report = dsprites.count_differences(str(tmp_path / "d.npz"))
    assert (report["pixels"], report["images"]) == (1, 1)
    assert abs(report["on_original"] - report["on_regenerated"]) == 1


def test_the_original_hdf5(tmp_path, monkeypatch):
    h5py = pytest.importorskip("h5py")
    from unbraid.data.factors import Factors

    monkeypatch.setattr(dsprites, "FACTORS", Factors.of({"shape": 3, "x": 20}))
    images = np.random.default_rng(0).integers(0, 2, (60, 64, 64)).astype(np.uint8)
    with h5py.File(tmp_path / "d.hdf5", "w") as file:
        file["imgs"] = images
    assert np.array_equal(load("dsprites", path=str(tmp_path / "d.hdf5")).pixels(np.arange(60))[:, 0], images)
