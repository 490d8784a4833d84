"""A run in the hand: its leaves, its data, its codes, and images of any code. All numbers come from `Run` and its rooms."""

from __future__ import annotations

import io
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch

from unbraid.codes import Codes
from unbraid.data.pictures import named, picture, planes
from unbraid.ground.errors import UnbraidError, expect
from unbraid.runs.leaves import LeafNote, leaf_notes, middling, prior_values, some_codes
from unbraid.runs.run import Run
from unbraid.studio.vectors import Sheet

UPLOAD = 8 << 20  # bytes of a dropped file
STEPS = 9  # cells of a row of the wall
MODES = ("prior", "data", "image")


@dataclass(frozen=True)
class Seen:
    """An image with its posterior: what was shown, what it decodes to, mean and scale of every column."""

    image: np.ndarray
    decoded: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    label: str = ""


@dataclass(frozen=True)
class Explorer:
    """A run with everything an open page asks for, each made once."""

    run: Run
    notes: tuple[LeafNote, ...]
    codes: Codes | None
    start: np.ndarray

    @classmethod
    def of(cls, run: Run) -> Explorer:
        """Load the model and what is known of its leaves."""
        codes = some_codes(run)
        notes = tuple(leaf_notes(run, codes))
        start = np.median(prior_values(run, 64), 0) if codes is None or not len(codes) else codes.mean[middling(codes)]
        return cls(run, notes, codes, np.asarray(start, np.float32))

    @cached_property
    def dataset(self) -> Any:
        """The data set, or None when its files are not here."""
        try:
            found = self.run.dataset()
            return found if tuple(found.shape) == tuple(self.run.state["shape"]) else None
        except (UnbraidError, OSError):
            return None

    @property
    def tree(self) -> Any:
        """The latent tree."""
        return self.run.model.tree

    @property
    def middle(self) -> int:
        """The number of the image to begin with: the middling one where codes know their images, else the middle one."""
        count = 0 if self.dataset is None else len(self.dataset)
        if self.codes is None or self.codes.index is None or not len(self.codes):
            return count // 2
        found = int(self.codes.index[middling(self.codes)])
        return found if found < count else count // 2

    def code(self, plain: Any) -> np.ndarray:
        """A code from a browser: as many finite numbers as the tree has columns."""
        expect(isinstance(plain, list) and len(plain) == self.tree.width, "a code has one number per column")
        good = all(isinstance(v, int | float) and abs(v) < 1e6 for v in plain)
        expect(good, "a code holds finite numbers")
        return np.asarray(plain, np.float32)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Images of codes as bytes "n h w c", as a canvas takes them."""
        with torch.no_grad():
            return self.shown(self.run.decode(codes))

    @cached_property
    def sheet(self) -> Sheet | None:
        """What vectors are drawn on; None for a run on images."""
        width, *sides = (int(s) for s in self.run.state["shape"])
        if sides != [1, 1]:
            return None
        if self.dataset is None:  # without its data: what the prior decodes to
            return Sheet.of(self.run.decode(prior_values(self.run, 500)).reshape(-1, width))
        some = np.linspace(0, len(self.dataset) - 1, min(2000, len(self.dataset))).astype(int)
        return Sheet.of(self.dataset.pixels(some).reshape(-1, width))

    def shown(self, images: np.ndarray) -> np.ndarray:
        """Images "n c h w" as bytes; vectors as pictures of them."""
        return as_bytes(images) if self.sheet is None else self.sheet.drawn(images.reshape(len(images), -1))

    def see(self, pixels: np.ndarray, label: str = "") -> Seen:
        """One image "c h w" and its posterior."""
        with torch.no_grad():
            q = self.run.model.posterior(torch.from_numpy(np.ascontiguousarray(pixels[None], np.float32)))
            mean, scale = q.mean[0].numpy(), q.scale[0].numpy()
        return Seen(self.shown(pixels[None])[0], self.decode(mean[None])[0], mean, scale, label)

    def image(self, index: Any) -> Seen:
        """One image of the data by its number."""
        expect(self.dataset is not None, f"the data of {self.run.path.name} are not on this machine")
        count = len(self.dataset)
        expect(isinstance(index, int) and 0 <= index < count, "there is no such image", allowed=f"0 … {count - 1}")
        return self.see(self.dataset.pixels(index)[0], self.label(index))

    def label(self, index: int) -> str:
        """The factors behind an image, in words."""
        values = self.dataset.labels(np.array([index]))
        if values is None:
            return ""
        names = [factor.name for factor in self.dataset.factors.items]
        return ", ".join(f"{name} {value:g}" for name, value in zip(names, values[0], strict=True))

    def dropped(self, raw: bytes, name: str = "the dropped file") -> Seen:
        """A picture from outside, cropped and resized to what the run was trained on; bounded, decoded as pixels only."""
        expect(len(raw) <= UPLOAD, f"{name} is too large", found=f"{len(raw):,} bytes", allowed=f"{UPLOAD:,}")
        channels, height, width = (int(s) for s in self.run.state["shape"])
        expect(channels in (1, 3) and height > 1, "this run was not trained on pictures")
        expect(height == width, "pictures are dropped on runs of square images", found=f"{height}×{width}")
        pixels = planes(picture(named(raw, name), size=height, grey=channels == 1), channels)
        return self.see(pixels.astype(np.float32) / 255, name)

    def thumbnails(self, first: int, count: int) -> tuple[list[int], np.ndarray]:
        """Some images of the data, evenly spaced from `first` on."""
        expect(self.dataset is not None, f"the data of {self.run.path.name} are not on this machine")
        total = len(self.dataset)
        index = [(first + i * max(1, total // count)) % total for i in range(min(count, total))]
        return index, self.shown(self.dataset.pixels(np.array(index)))

    def draw(self, seed: int) -> np.ndarray:
        """One code from the prior."""
        return prior_values(self.run, 1, seed)[0].astype(np.float32)

    def cells(self, note: LeafNote, column: int, mode: str) -> tuple[list[str], np.ndarray]:
        """The values that one row of the wall passes through, and their labels: "s width" or "s 1"."""
        if note.kind == "onehot":
            return [str(i) for i in range(note.width)], np.eye(note.width, dtype=np.float32)
        if note.kind == "binary":
            return ["0", "1"], np.array([[0.0], [1.0]], np.float32)
        at = note.start + column
        if mode == "data" and self.codes is not None:
            values = np.quantile(self.codes.mean[:, at], np.linspace(0.01, 0.99, STEPS))
        elif mode == "prior":
            values = np.quantile(prior_values(self.run, 4000)[:, at], np.linspace(0.02, 0.98, STEPS))
        else:
            values = np.linspace(note.low[column], note.high[column], STEPS)
        return [f"{v:+.2f}" for v in values], values[:, None].astype(np.float32)

    def wall(self, start: np.ndarray, mode: str) -> list[dict[str, Any]]:
        """One row per leaf (per column of a wide real one), the most informative first, with codes and images."""
        expect(
            mode in MODES,
            "the wall's range comes from the prior, the data or one image",
            found=repr(mode),
            allowed=MODES,
        )
        rows = []
        for note in self.notes:
            for column in range(1 if note.kind == "onehot" else note.width):
                labels, values = self.cells(note, column, mode)
                codes = np.repeat(start[None], len(values), 0)
                at = note.start + column
                codes[:, at : at + values.shape[1]] = values
                rows.append(
                    {"note": note, "column": column, "labels": labels, "codes": codes, "images": self.decode(codes)}
                )
        return rows

    def film(self, start: np.ndarray, leaf: str, frames: int = 32, scale: int = 4) -> bytes:
        """One leaf moved to and fro, as an animated GIF."""
        from PIL import Image

        note = next((note for note in self.notes if note.name == leaf), None)
        expect(note is not None, "the latent tree has no such leaf", found=repr(str(leaf)[:80]))
        assert note is not None
        _, values = self.cells(note, 0, "image")
        if note.kind == "real":
            turn = np.sin(np.linspace(0, 2 * np.pi, frames, endpoint=False))
            middle, reach = (note.low[0] + note.high[0]) / 2, (note.high[0] - note.low[0]) / 2
            values = (middle + reach * turn)[:, None].astype(np.float32)
        codes = np.repeat(start[None], len(values), 0)
        codes[:, note.start : note.start + values.shape[1]] = values
        pictures = [Image.fromarray(_shown(image)) for image in self.decode(codes)]
        large = [p.resize((p.width * scale, p.height * scale), Image.Resampling.NEAREST) for p in pictures]
        out = io.BytesIO()
        pace = 60 if note.kind == "real" else 500
        large[0].save(out, "GIF", save_all=True, append_images=large[1:], duration=pace, loop=0)
        return out.getvalue()


def as_bytes(images: np.ndarray) -> np.ndarray:
    """Images "n c h w" in 0 … 1 as bytes "n h w c"; vectors and odd channels keep their own number of them."""
    return np.rint(np.clip(np.nan_to_num(images), 0, 1) * 255).astype(np.uint8).transpose(0, 2, 3, 1)


def _shown(image: np.ndarray) -> np.ndarray:
    """Bytes "h w c" as Pillow takes them: grey, RGB, or the channels side by side."""
    if image.shape[2] == 3:
        return np.ascontiguousarray(image)
    return np.ascontiguousarray(np.concatenate([image[..., i] for i in range(image.shape[2])], 1))
