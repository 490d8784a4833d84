"""3D Faces: renderings of the user, or renderings of a morphable face model (after Paysan et al. 2009)."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import read_npz
from unbraid.core.progress import Advance
from unbraid.data.cache import array_cache
from unbraid.data.custom import images
from unbraid.data.dataset import Dataset, Source
from unbraid.data.factors import Factor, Factors
from unbraid.data.formats.array_files import read_array
from unbraid.data.rendering.rasteriser import rasterise_mesh, vertex_normals
from unbraid.data.rendering.ray_caster import rotate_about_y

if TYPE_CHECKING:
    from torch import Tensor

CITE = "Paysan et al. 2009"
AZIMUTHS = np.linspace(-90, 90, 21)
ELEVATIONS = np.linspace(-30, 30, 11)
LIGHTS = np.linspace(-75, 75, 11)
AMBIENT_LIGHT = 0.15


@dataclass(frozen=True)
class ShadedNormals:
    """Rendered normals, shaded on access: ambient·coverage + (1 − ambient)·max(0, n·l).

    Args:
        normals: "geometries 4 h w" int8: normal and coverage, times 127.
        num_lights: number of light directions.
    """

    normals: np.ndarray
    num_lights: int

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of one image."""
        return 1, self.normals.shape[2], self.normals.shape[3]

    def __len__(self) -> int:
        return len(self.normals) * self.num_lights

    def take(self, index: np.ndarray) -> np.ndarray:
        """Gather the normals of the images at `index`, with the light as one more byte; see `Images.take`."""
        index = np.asarray(index)
        rows = self.normals.take(index // self.num_lights, axis=0).reshape(len(index), -1)
        return np.concatenate([rows, (index % self.num_lights).astype(np.int8)[:, None]], axis=1)

    def unpack(self, rows: Tensor) -> Tensor:
        """Convert `rows` to images; see `Images.unpack`."""
        import torch

        direction = torch.tensor(_light_directions()[: self.num_lights], dtype=torch.float32, device=rows.device)
        chosen = direction[rows[:, -1].long()]
        layers = rows[:, :-1].reshape(len(rows), 4, *self.shape[1:]).float().mul_(1 / 127)
        facing = torch.einsum("bk,bkhw->bhw", chosen, layers[:, :3]).clamp_(min=0)
        return (AMBIENT_LIGHT * layers[:, 3] + (1 - AMBIENT_LIGHT) * facing).clamp_(max=1)[:, None]


def _light_directions() -> np.ndarray:
    """Unit vectors from the face to each light: from left to right, slightly above."""
    angle = np.radians(LIGHTS)
    light = np.stack([np.sin(angle), np.full(len(angle), 0.25), np.cos(angle)], axis=1)
    return light / np.linalg.norm(light, axis=1, keepdims=True)


def load(
    *,
    path: str = "",
    model: str = "",
    identities: int = 0,
    expressions: int = 1,
    size: int = 64,
    zoom: float = 1.35,
    seed: int = 0,
    key: str = "",
) -> Dataset:
    """Faces under azimuth 21, elevation 11 and light 11.

    Args:
        path: your renderings in .npy, .npz or .h5: an array "identity·21·11·11 h w" (or with these as separate axes;
            RGB with 3 as the last axis or before h w).
        model: or an .npz of a morphable model, rendered once and shaded on access: neutral (or mean) "v 3", tri "t 3",
            identity "modes v 3", expression "modes v 3".
        identities: number of identities, drawn from N(0, 1) over the modes; 8 by default (20,328 images from 30 MB,
            in about two minutes).
        expressions: number of expressions; 0 is neutral, k the mode that moves the face k-th most.
        size: side of the rendered images in pixels.
        zoom: size of the rendered face.
        seed: seed of the identities.
        key: name of the array in an .npz or .h5.
    """
    expect(
        bool(path) != bool(model),
        "faces3d needs your renderings or a face model",
        found="both" if path else "neither",
        do=f"{SOURCE.how_to_get}.",
    )
    if path:
        return _load_renderings(Path(path).expanduser(), identities, key)
    return _render_model(Path(model).expanduser(), identities or 8, expressions, size, zoom, seed)


def _load_renderings(path: Path, identities: int, key: str) -> Dataset:
    expect(
        path.suffix not in (".pth", ".pt", ".pkl"),
        f"faces3d: {path.name} holds Python objects, which are not read",
        do="Save the tensor as .npy: numpy.save('faces.npy', tensor.numpy()).",
    )
    array = read_array(path, key)
    expect(array.ndim >= 3, f"faces3d: {path} must hold images", found=f"shape {array.shape}")
    # otherwise the third axis from the end counts views
    coloured = array.ndim > 3 and int(np.prod(array.shape[:-3])) % 2541 == 0
    last, first = array.shape[-1] in (1, 3), array.shape[-3] in (1, 3)
    layout = "nhw" if not coloured else "nhwc" if last else "nchw" if first else ""
    flat = array.reshape(-1, *array.shape[-3:] if coloured else array.shape[-2:])
    people = len(flat) // 2541
    expect(
        layout and people and len(flat) == people * 2541,
        f"faces3d: {path} must hold identities × 21 × 11 × 11 images",
        found=f"shape {array.shape}",
        allowed="…×h×w (grey), …×h×w×3 or …×3×h×w",
    )
    expect(identities in (0, people), f"faces3d: {path} holds {people} identities", found=f"identities = {identities}")
    return Dataset("faces3d", images.images_from_array(flat, layout, str(path)), _build_factors(people, ()), cite=CITE)


def _build_factors(identities: int, expressions: tuple[str, ...]) -> Factors:
    items = [Factor("identity", identities, "class")]
    if len(expressions) > 1:
        items.append(Factor("expression", len(expressions), "class", expressions))
    views = {"azimuth": AZIMUTHS, "elevation": ELEVATIONS, "light": LIGHTS}
    items += [Factor(name, len(values), "ordinal", tuple(values.tolist())) for name, values in views.items()]
    return Factors(tuple(items))


def _render_model(path: Path, identities: int, expressions: int, size: int, zoom: float, seed: int) -> Dataset:
    face = _read_face_model(path)
    modes, gestures = face["identity"], face["expression"]
    expect(
        1 <= expressions <= len(gestures) + 1,
        f"faces3d: {path} has {len(gestures)} expressions",
        found=expressions,
        do="expressions includes the neutral one.",
    )
    weights = np.random.Generator(np.random.Philox(key=seed)).standard_normal((identities, len(modes)))
    half = zoom / np.ptp(face["neutral"], axis=0).max() * 2
    centre = face["neutral"].mean(axis=0)

    def fill(array: np.ndarray, advance: Advance) -> None:
        blocks = array.reshape(identities, expressions, 21, 11, 4, size, size)
        for i in range(identities):
            person = face["neutral"] + np.tensordot(weights[i], modes, 1) - centre
            for e in range(expressions):
                shape = (person + (gestures[e - 1] if e else 0)) * half
                blocks[i, e] = _render_views(shape, face["tri"], size, advance)

    name = f"faces3d-1-{array_cache.file_fingerprint([path], identities, expressions, size, zoom, seed)}"
    total = identities * expressions * 231
    normals = array_cache.load_or_generate(name, (total, 4, size, size), np.int8, fill, total)
    names = ("neutral", *face["names"][: expressions - 1])
    factors, notes = _build_factors(identities, names), {"model": path.name}
    return Dataset("faces3d", ShadedNormals(normals, 11), factors, cite=CITE, notes=notes)


def _render_views(points: np.ndarray, triangles: np.ndarray, size: int, advance: Advance) -> np.ndarray:
    """Normals and coverage "21 11 4 size size" of one face under every azimuth and elevation."""
    views = np.empty((21, 11, 4, size, size), np.int8)
    normals = vertex_normals(points, triangles)
    for a, azimuth in enumerate(np.radians(AZIMUTHS)):
        for e, elevation in enumerate(np.radians(ELEVATIONS)):
            c, s = np.cos(elevation), np.sin(elevation)
            tilt = np.array([[1, 0, 0], [0, c, -s], [0, s, c]])
            turned, facing = (rotate_about_y(vectors, azimuth) @ tilt.T for vectors in (points, normals))
            views[a, e] = np.rint(rasterise_mesh(turned, facing, triangles, size) * 127)
            advance()
    return views


def _read_face_model(path: Path) -> dict[str, Any]:
    expect(path.suffix == ".npz", "faces3d: a face model must be an .npz", found=path.name)
    raw = read_npz(path, "face model")
    neutral = raw.get("neutral", raw.get("mean"))
    triangles = raw.get("tri", raw.get("triangles"))
    if neutral is None or triangles is None or "identity" not in raw:
        raise UnbraidError(
            f"face model {path} must hold neutral (or mean), tri (or triangles) and identity: found "
            f"{', '.join(raw) or 'nothing'}."
        )
    v = len(neutral)
    expression = raw.get("expression", np.zeros((0, v, 3)))
    whole = neutral.shape == (v, 3) and raw["identity"].shape[1:] == (v, 3) and expression.shape[1:] == (v, 3)
    expect(
        whole and triangles.ndim == 2 and triangles.shape[1] == 3,
        f"face model {path} must have arrays of matching shapes",
        found={name: array.shape for name, array in raw.items()},
    )
    expect(triangles.min() >= 0 and triangles.max() < v, f"face model {path}: a triangle refers to a missing vertex")
    expect(np.isfinite(neutral).all() and np.isfinite(raw["identity"]).all(), f"face model {path} holds NaN")
    names = raw.get("expression_names", np.arange(len(expression)).astype(str))
    strongest = np.argsort(-np.abs(expression.astype(np.float64)).sum(axis=(1, 2)), kind="stable")
    expression, names = expression[strongest], names[strongest]
    return {
        "neutral": neutral.astype(np.float64),
        "tri": triangles.astype(np.int64),
        "identity": raw["identity"].astype(np.float32),
        "expression": expression.astype(np.float64),
        "names": tuple(str(name) for name in names),
    }


SOURCE = Source(
    name="faces3d",
    about="faces under pose and light: your renderings, or a morphable model that is rendered",
    load=load,
    size="identities × 2,541 × 1×64×64 (3.8 MB per identity if rendered)",
    cite=CITE,
    factors="identity, (expression,) azimuth 21, elevation 11, light 11",
    status=lambda: "needs a file: a face model",
    how_to_get="model = a morphable face model (.npz), or path = your renderings (.npy, .npz, .h5)",
)
