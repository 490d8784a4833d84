"""Toys and rendered scenes against what is known of them in closed form."""

from __future__ import annotations

import weakref

import data_layouts
import numpy as np
import pytest
import torch

from unbraid.core.errors import UnbraidError
from unbraid.data import load
from unbraid.data.rendering import ray_caster
from unbraid.data.rendering.rasteriser import rasterise_mesh, vertex_normals
from unbraid.data.sets import shapes3d, toys
from unbraid.data.sets.faces3d import ShadedNormals


def test_pinwheel_unbends_to_its_normal_law():
    data = load("pinwheel", n=4000, radial=0.2, tangential=0.1)
    x, y = data.pixels(np.arange(4000))[:, :, 0, 0].T.astype(float)
    arm = data.labels()[:, 0]
    radius, angle = np.hypot(x, y), np.arctan2(y, x)
    for _ in range(20):  # (along, across) rotated by 2πk/4 + ¼·exp(along): solve for along
        along = radius * np.cos(angle - 2 * np.pi * arm / 4 - 0.25 * np.exp(radius if _ == 0 else along))
    across = radius * np.sin(angle - 2 * np.pi * arm / 4 - 0.25 * np.exp(along))
    assert abs(along.mean() - 1) < 0.02
    assert abs(along.std() - 0.2) < 0.01
    assert abs(across.std() - 0.1) < 0.005
    assert np.bincount(arm).tolist() == [1000] * 4


def test_linear_factors_have_the_covariance_they_name():
    data = load("linear_factors", n=40_000, columns=6, sources=3)
    x, mixing = data.pixels(np.arange(len(data)))[:, :, 0, 0], data.notes["mixing"]
    assert np.allclose(np.cov(x.T), mixing @ mixing.T + 0.01 * np.eye(6), atol=0.15)
    assert np.allclose(mixing.T @ mixing, np.diag([9.0, 4, 1]))
    residual = x - data.labels() @ mixing.T
    assert abs(residual.std() - 0.1) < 0.002
    with pytest.raises(UnbraidError, match="orthogonal = false"):
        load("linear_factors", columns=2, sources=3)


@pytest.mark.parametrize("law", toys.LAWS)
def test_ica_sources_explain_the_data(law):
    data = load("ica", law=law, noise=0.0, n=500)
    x, mixing = data.pixels(np.arange(500))[:, :, 0, 0], data.notes["mixing"]
    assert np.allclose(x, data.labels() @ mixing.T, atol=1e-4)
    assert np.allclose(np.linalg.norm(mixing, axis=0), 1)


def test_blocks_are_drawn_by_exclusive_or():
    data = load("xy_blocks", size=16)
    image = data.pixels(data.factors.index([0, 0, 1, 1]))[0, 0]
    expected = np.zeros((16, 16))
    expected[:8, :8] = 1
    expected[4:8, 4:8] = 0
    assert np.array_equal(image, expected)
    assert len(np.unique(data.images.array, axis=0)) == len(data)


def test_seeds_change_the_draw_and_nothing_else():
    for name in ("pinwheel", "moons", "rings", "clusters", "linear_factors", "ica"):
        a, b, c = (load(name, seed=s).pixels(np.arange(50)) for s in (0, 0, 1))
        assert np.array_equal(a, b)
        assert not np.array_equal(a, c)


def test_a_ray_meets_the_room_where_geometry_says():
    scene = ray_caster.Scene()
    origin = np.array([[0.0, 0.5, 0.0]] * 4)
    ray = np.array([[0.0, -1, 0], [0, 0, 1], [1, 0, 0], [0, 0.8, 0.6]])
    distance, material, normal = ray_caster.intersect_room(scene, origin, ray)
    assert material.tolist() == [ray_caster.FLOOR, ray_caster.WALL, ray_caster.WALL, ray_caster.SKY]
    assert np.allclose(distance[:3], [0.5, scene.wall_distance, scene.wall_distance])
    assert np.allclose(normal[:3], [[0, 1, 0], [0, 0, -1], [-1, 0, 0]])


@pytest.mark.parametrize("shape", shapes3d.SHAPES)
def test_hits_lie_on_the_surface_and_normals_face_the_ray(shape):
    scene, rng = ray_caster.Scene(), np.random.default_rng(0)
    origin = np.tile([[0.2, 0.4, -1.0]], (4000, 1))
    target = rng.normal(0, 0.15, (4000, 3)) + [0, 0.2, 0]
    ray = (target - origin) / np.linalg.norm(target - origin, axis=1, keepdims=True)
    distance, normal = ray_caster.intersect_object(scene, shape, 1.0, origin, ray)
    hit = distance < ray_caster.FAR
    assert 0.2 < hit.mean() < 1
    x, y, z = (origin + distance[:, None] * ray)[hit].T
    assert (np.einsum("ij,ij->i", normal, ray)[hit] < 1e-9).all()
    assert np.allclose(np.linalg.norm(normal[hit], axis=1), 1, atol=1e-6)
    r, tall = {"cylinder": scene.cylinder, "capsule": scene.capsule}.get(shape, (0, 0))
    if shape == "cube":
        off = np.maximum.reduce([abs(x), abs(y - scene.cube), abs(z)]) - scene.cube
    elif shape == "sphere":
        off = np.sqrt(x**2 + (y - scene.sphere) ** 2 + z**2) - scene.sphere
    elif shape == "cylinder":
        off = np.maximum(np.hypot(x, z) - r, np.abs(y - tall / 2) - tall / 2)
    else:
        off = np.sqrt(x**2 + z**2 + (y - np.clip(y, r, tall - r)) ** 2) - r
    assert abs(off).max() < 1e-6


def test_layers_share_each_pixel_and_the_shadow_is_dark():
    light = ray_caster.render_light(ray_caster.Scene(), "sphere", 1.0, 0.0, size=32, subsamples=2)
    assert light.shape == (5, 32, 32)
    sky = light[3]
    assert sky[0].min() == 1
    assert sky[-1].max() == 0
    floor_row = light[0][27]
    assert floor_row.min() < 0.6 * floor_row.max(), "there is a shadow on the floor"
    assert (light[2].sum(axis=0) > 0).sum() > 5


def test_paint_is_the_product_of_light_and_colour():
    light = np.zeros((480, 5, 4096), np.uint8)
    one = shapes3d.BYTES_PER_LIGHT
    light[7, 0, :1000], light[7, 1, 1000:2000], light[7, 2, 2000:3000] = one, one // 2, one
    light[7, 3, 3000:3500], light[7, 4, 3500:] = one, one // 4
    images = shapes3d.ShadedImages(light)
    index = ((3 * 10 + 5) * 10 + 0) * 480 + 7  # floor hue 3, wall hue 5, object hue 0
    image = images.unpack(torch.from_numpy(images.take(np.array([index])))).view(3, 4096).numpy()
    assert len(images) == 480_000
    assert np.allclose(image[:, 0], [0.2, 1.0, 0.0], atol=1e-6)
    assert np.allclose(image[:, 1500], [0.0, 0.5, 0.5], atol=1e-6)
    assert np.allclose(image[:, 2500], [1.0, 0.0, 0.0], atol=1e-6)
    assert np.allclose(image[:, 3200], shapes3d.SKY_COLOUR, atol=1e-6)
    assert np.allclose(image[:, 4000], 0.25, atol=1e-6)


def test_rooms_of_half_the_size_have_the_mean_light_of_four_pixels(monkeypatch):
    light = np.random.default_rng(0).integers(0, 20, (480, 5, 4096)).astype(np.uint8)  # too little to be clipped
    monkeypatch.setattr(shapes3d.array_cache, "load_or_generate", lambda *rest: light)
    index = np.array([0, 777, 479_999])
    large, small = shapes3d.load().pixels(index), shapes3d.load(size=32).pixels(index)
    assert small.shape == (3, 3, 32, 32)
    pooled = large.reshape(3, 3, 32, 2, 32, 2).mean(axis=(3, 5))
    assert (
        np.abs(small - pooled).max() < 5 * 0.5 / shapes3d.BYTES_PER_LIGHT + 1e-6
    )  # light is rounded to bytes, layer by layer
    with pytest.raises(UnbraidError, match="two sizes"):
        shapes3d.load(size=16)
    with pytest.raises(UnbraidError, match="64×64"):
        shapes3d.load(path="rooms.h5", size=32)


def test_a_rasterised_ball_has_the_area_and_normals_of_a_ball():
    points, triangles = data_layouts.sphere_mesh(40)
    normals = vertex_normals(points, triangles)
    assert np.allclose(normals, points, atol=0.05)
    seen = rasterise_mesh(points * 0.8, normals, triangles, 48, subsamples=3)
    assert abs(seen[3].mean() * 4 - np.pi * 0.64) < 0.02
    at = (np.arange(48) + 0.5) / 24 - 1
    x, y = np.meshgrid(at, -at)
    inside = x**2 + y**2 < 0.6**2
    z = np.sqrt(np.maximum(0.64 - x**2 - y**2, 0))
    for found, expected in zip(seen[:3], (x, y, z), strict=True):
        assert abs(found - expected / 0.8)[inside].max() < 0.06


def test_the_nearer_surface_wins():
    square = np.array([[-1, -1, 0], [1, -1, 0], [1, 1, 0], [-1, 1, 0.0]])
    points = np.concatenate([square * 0.9, square * [0.5, 0.5, 1] + [0, 0, 0.5]])
    triangles = np.array([[0, 1, 2], [0, 2, 3], [4, 5, 6], [4, 6, 7]])
    normals = np.array([[0, 0, 1.0]] * 4 + [[1.0, 0, 0]] * 4)
    seen = rasterise_mesh(points, normals, triangles[::-1], 32)
    assert seen[0, 16, 16] == 1
    assert seen[2, 16, 3] == 1
    assert seen[3, 0, 0] == 0


def test_faces_are_lit_from_where_the_light_is(tmp_path):
    data = load("faces3d", **{**data_layouts.faces3d(tmp_path), "identities": 1}, expressions=2)
    assert isinstance(data.images, ShadedNormals)
    assert data.factors.names == ("identity", "expression", "azimuth", "elevation", "light")
    assert data.factors.items[1].values == ("neutral", "smile")
    left, right = data.pixels(data.factors.index([[0, 0, 10, 5, 0], [0, 0, 10, 5, 10]]))[:, 0]
    assert left[:, :8].sum() > 1.5 * left[:, 8:].sum()
    assert right[:, 8:].sum() > 1.5 * right[:, :8].sum()
    with pytest.raises(UnbraidError, match="has 1 expressions"):
        load("faces3d", **data_layouts.faces3d(tmp_path), expressions=5)


def test_a_face_model_of_another_layout_is_named(tmp_path):
    np.savez(tmp_path / "m.npz", neutral=np.zeros((5, 3)))
    with pytest.raises(UnbraidError, match="must hold neutral"):
        load("faces3d", model=str(tmp_path / "m.npz"))
    np.savez(tmp_path / "m.npz", neutral=np.zeros((5, 3)), tri=np.array([[0, 1, 9]]), identity=np.zeros((1, 5, 3)))
    with pytest.raises(UnbraidError, match="refers to a missing vertex"):
        load("faces3d", model=str(tmp_path / "m.npz"))


def test_images_that_are_gone_leave_no_copies_on_a_device():
    light = np.zeros((2, 5, 16), np.uint8)
    images, seen = shapes3d.ShadedImages(light, (3, 4, 4)), weakref.ref(light)
    assert images.unpack(torch.tensor([0, 3])).shape == (2, 3, 4, 4)
    del images, light
    assert seen() is None
