"""State of an open run: its leaves, data, codes, and decoded images of any code."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError, expect
from unbraid.data.formats.image_files import as_named_file, read_image, to_chw
from unbraid.runs import Run
from unbraid.runs.evaluation.leaf_summary import (
    LeafSummary,
    load_or_encode_codes,
    sample_prior_values,
    summarise_leaves,
)
from unbraid.studio.latent_map import LatentMap, dataset_indices, typical_row
from unbraid.studio.vector_images import VectorCanvas

MAX_UPLOAD_BYTES = 8 << 20
TRAVERSAL_STEPS = 9  # images per traversal row
RANGE_MODES = ("prior", "data", "image")
UNUSUAL_QUANTILE = 0.99  # an image with a larger error than this share of the data is marked


@dataclass(frozen=True)
class EncodedImage:
    """An image, its reconstruction and its posterior.

    Args:
        image: the input as pixels "h w c".
        reconstruction: the decoded posterior mean as pixels "h w c".
        mean: the posterior mean of every column.
        scale: the posterior scale of every column.
        label: factor values or file name.
        warning: why the image is unlike the training images; "" if it is not.
    """

    image: np.ndarray
    reconstruction: np.ndarray
    mean: np.ndarray
    scale: np.ndarray
    label: str = ""
    warning: str = ""


@dataclass(frozen=True)
class Explorer:
    """A run with its model in memory; derived values are computed once.

    Args:
        run: the run.
        leaf_summaries: one summary per leaf, most informative first.
        codes: codes of the data; None if the data are missing.
    """

    run: Run
    leaf_summaries: tuple[LeafSummary, ...]
    codes: Codes | None

    @classmethod
    def from_run(cls, run: Run) -> Explorer:
        """Load the model and summarise its leaves.

        Args:
            run: the run.
        """
        codes = load_or_encode_codes(run)
        return cls(run, tuple(summarise_leaves(run, codes)), codes if codes is not None and len(codes) else None)

    @cached_property
    def titles(self) -> dict[str, str]:
        """Names for people of leaves and columns, "scale (z2)", the most informative leaf first."""
        columns = self.tree.column_names
        parts = {note: [note.name, *columns[note.start : note.start + note.width]] for note in self.leaf_summaries}
        return {name: f"{note.title} ({name})" if note.title else name for note in parts for name in parts[note]}

    @cached_property
    def latent_map(self) -> LatentMap | None:
        """The map of the codes; None if there are no codes."""
        return None if self.codes is None else LatentMap(self)

    @cached_property
    def start_row(self) -> int | None:
        """Row of the codes to start from, a typical and well reconstructed image; None if there are no codes."""
        return None if self.codes is None else typical_row(self)

    @cached_property
    def start_code(self) -> np.ndarray:
        """The code that is shown first."""
        if self.codes is None or self.start_row is None:
            return np.asarray(np.median(sample_prior_values(self.run, 64), 0), np.float32)
        return np.asarray(self.codes.mean[self.start_row], np.float32)

    @cached_property
    def training_range(self) -> tuple[np.ndarray, np.ndarray] | None:
        """The smallest and largest value of each column that the decoder met: posterior means ± 2σ of the data."""
        if self.codes is None:
            return None
        reach = 0.0 if self.codes.scale is None else 2 * self.codes.scale
        return (self.codes.mean - reach).min(0), (self.codes.mean + reach).max(0)

    @cached_property
    def dataset(self) -> Any:
        """The data set, or None if its files are missing or its images have another shape."""
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
    def start_index(self) -> int:
        """Index of the first image to show: that of `start_row` if codes have indices, else the middle one."""
        index = None if self.start_row is None else dataset_indices(self, np.array([self.start_row]))
        return int(index[0]) if index is not None else (0 if self.dataset is None else len(self.dataset) // 2)

    def parse_code(self, numbers: Any) -> np.ndarray:
        """Validate a code sent by the browser: one finite number per column of the tree.

        Args:
            numbers: the decoded JSON value.
        """
        expect(isinstance(numbers, list) and len(numbers) == self.tree.width, "a code has one number per column")
        good = all(isinstance(v, int | float) and abs(v) < 1e6 for v in numbers)
        expect(good, "a code holds finite numbers")
        return np.asarray(numbers, np.float32)

    def decode(self, codes: np.ndarray) -> np.ndarray:
        """Decode codes to pixels "n h w c" in uint8.

        Args:
            codes: codes "n d".
        """
        with torch.no_grad():
            return self.to_pixels(self.run.decode(codes))

    @cached_property
    def vector_canvas(self) -> VectorCanvas | None:
        """Canvas on which vectors are drawn; None for a run on images."""
        width, *sides = (int(s) for s in self.run.state["shape"])
        if sides != [1, 1]:
            return None
        if self.dataset is None:  # decoded samples of the prior instead
            return VectorCanvas.from_points(self.run.decode(sample_prior_values(self.run, 500)).reshape(-1, width))
        some = np.linspace(0, len(self.dataset) - 1, min(2000, len(self.dataset))).astype(int)
        return VectorCanvas.from_points(self.dataset.pixels(some).reshape(-1, width))

    def to_pixels(self, images: np.ndarray) -> np.ndarray:
        """Convert images "n c h w" to pixels "n h w c"; vectors are drawn as small pictures.

        Args:
            images: images in 0 … 1, or vectors "n d 1 1".
        """
        return (
            to_uint8(images)
            if self.vector_canvas is None
            else self.vector_canvas.render(images.reshape(len(images), -1))
        )

    def encode_image(self, pixels: np.ndarray, label: str = "") -> EncodedImage:
        """Encode one image and decode its posterior mean.

        Args:
            pixels: the image "c h w".
            label: text shown with the image.
        """
        with torch.no_grad():
            q = self.run.model.posterior(torch.from_numpy(np.ascontiguousarray(pixels[None], np.float32)))
            mean, scale = q.mean[0].numpy(), q.scale[0].numpy()
        return EncodedImage(self.to_pixels(pixels[None])[0], self.decode(mean[None])[0], mean, scale, label)

    def dataset_image(self, index: Any) -> EncodedImage:
        """Encode one image of the data set.

        Args:
            index: its index, as sent by the browser.
        """
        expect(self.dataset is not None, f"the data of {self.run.path.name} are not on this machine")
        count = len(self.dataset)
        expect(isinstance(index, int) and 0 <= index < count, "there is no such image", allowed=f"0 … {count - 1}")
        return self.encode_image(self.dataset.pixels(index)[0], self.describe_factors(index))

    def describe_factors(self, index: int) -> str:
        """Return the factor values of an image as text.

        Args:
            index: index of the image.
        """
        values = self.dataset.labels(np.array([index]))
        if values is None:
            return ""
        shown = []
        for factor, value in zip(self.dataset.factors.items, values[0], strict=True):
            named = 0 <= value < len(factor.values) and isinstance(factor.values[int(value)], str)
            shown.append(f"{factor.name} {factor.values[int(value)] if named else format(value, 'g')}")
        return ", ".join(shown)

    def uploaded_image(self, content: bytes, name: str = "the uploaded file") -> EncodedImage:
        """Encode an uploaded picture, cropped and resized to the shape of the training images.

        Args:
            content: the bytes of the file, at most `MAX_UPLOAD_BYTES`.
            name: file name for error messages.
        """
        expect(
            len(content) <= MAX_UPLOAD_BYTES,
            f"{name} is too large",
            found=f"{len(content):,} bytes",
            allowed=f"{MAX_UPLOAD_BYTES:,}",
        )
        channels, height, width = (int(s) for s in self.run.state["shape"])
        expect(channels in (1, 3) and height > 1, "this run was not trained on pictures")
        expect(height == width, "uploads need a run on square images", found=f"{height}×{width}")
        pixels = to_chw(read_image(as_named_file(content, name), size=height, grey=channels == 1), channels)
        encoded = self.encode_image(pixels.astype(np.float32) / 255, name)
        known = None if self.latent_map is None else self.latent_map.errors
        error = float(((encoded.image / 255.0 - encoded.reconstruction / 255.0) ** 2).mean())
        if known is None or error <= np.quantile(known, UNUSUAL_QUANTILE):
            return encoded
        share = f"{float((known < error).mean()):.1%}"
        return replace(encoded, warning=f"Unlike the training images: reconstructed worse than {share} of them.")

    def thumbnails(self, first: int, count: int) -> tuple[list[int], np.ndarray]:
        """Return the indices and pixels of evenly spaced images.

        Args:
            first: index of the first image.
            count: number of images.
        """
        expect(self.dataset is not None, f"the data of {self.run.path.name} are not on this machine")
        total = len(self.dataset)
        index = [(first + i * max(1, total // count)) % total for i in range(min(count, total))]
        return index, self.to_pixels(self.dataset.pixels(np.array(index)))

    def sample_prior(self, seed: int) -> np.ndarray:
        """Draw one code from the prior.

        Args:
            seed: seed of the draw.
        """
        return sample_prior_values(self.run, 1, seed)[0].astype(np.float32)

    def traversal_values(self, leaf: LeafSummary, column: int, mode: str) -> tuple[list[str], np.ndarray]:
        """Return labels and values "s width" of one traversal row.

        Args:
            leaf: summary of the leaf that moves.
            column: column of a real leaf.
            mode: where the range comes from, one of `RANGE_MODES`.
        """
        if leaf.kind == "onehot":
            return [str(i) for i in range(leaf.width)], np.eye(leaf.width, dtype=np.float32)
        if leaf.kind == "binary":
            return ["0", "1"], np.array([[0.0], [1.0]], np.float32)
        at = leaf.start + column
        if mode == "data" and self.codes is not None:
            values = np.quantile(self.codes.mean[:, at], np.linspace(0.01, 0.99, TRAVERSAL_STEPS))
        elif mode == "prior":
            values = np.quantile(sample_prior_values(self.run, 4000)[:, at], np.linspace(0.02, 0.98, TRAVERSAL_STEPS))
        else:
            values = np.linspace(leaf.low[column], leaf.high[column], TRAVERSAL_STEPS)
        return [f"{v:+.2f}" for v in values], values[:, None].astype(np.float32)

    def traversal_grid(self, start: np.ndarray, mode: str) -> list[dict[str, Any]]:
        """Traverse every leaf (every column of a wide real leaf), most informative first.

        Args:
            start: the code that the other columns keep.
            mode: where the range comes from, one of `RANGE_MODES`.
        """
        expect(mode in RANGE_MODES, "unknown range of a traversal", found=repr(mode), allowed=RANGE_MODES)
        rows = []
        for note in self.leaf_summaries:
            for column in range(1 if note.kind == "onehot" else note.width):
                labels, values = self.traversal_values(note, column, mode)
                codes = np.repeat(start[None], len(values), 0)
                at = note.start + column
                codes[:, at : at + values.shape[1]] = values
                rows.append(
                    {"note": note, "column": column, "labels": labels, "codes": codes, "images": self.decode(codes)}
                )
        return rows


def to_uint8(images: np.ndarray) -> np.ndarray:
    """Convert images in 0 … 1 to uint8 pixels "n h w c".

    Args:
        images: images "n c h w".
    """
    return np.rint(np.clip(np.nan_to_num(images), 0, 1) * 255).astype(np.uint8).transpose(0, 2, 3, 1)
