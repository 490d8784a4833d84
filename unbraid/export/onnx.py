"""ONNX: encoder and decoder of a run as two files for any runtime, checked against torch before they are written."""

from __future__ import annotations

import importlib.util
import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from unbraid.core.errors import UnbraidError, expect
from unbraid.core.files import ensure_writable_folder, write_bytes, write_json
from unbraid.runs import Run
from unbraid.runs.fitting.seeding import default_float32
from unbraid.runs.folder.leaf_names import read_leaf_names

REQUIRED_PACKAGES = ("onnx", "onnxscript", "onnxruntime")
ONNX_FOLDER, ENCODER_FILE, DECODER_FILE, ABOUT_FILE = "onnx", "encoder.onnx", "decoder.onnx", "about.json"
TOLERANCE = 1e-4  # difference from torch, relative to the largest number or to 1
CHECKED_BATCHES = (1, 2, 5)


class Encoder(nn.Module):
    """Encode images "b c h w" to means and scales "b d"; discrete leaves have probabilities, with scale 0.

    Args:
        model: the model of a run.
    """

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        """Return the means and the scales of q(z|x)."""
        q = self.model.posterior(images)
        return q.mean, q.scale


class Decoder(nn.Module):
    """Decode codes "b d" to mean images "b c h w".

    Args:
        model: the model of a run.
    """

    def __init__(self, model: Any):
        super().__init__()
        self.model = model

    def forward(self, codes: Tensor) -> Tensor:
        """Return the mean images."""
        return self.model.decode(codes)


@default_float32()
def write_onnx(run: Run, out: Path | None = None) -> Path:
    """Write encoder.onnx and decoder.onnx, for any batch size, and about.json, which describes inputs and outputs.

    onnxruntime evaluates both for batches of 1, 2 and 5; a difference from torch above 1e-4 is an error.

    Args:
        run: the run.
        out: the folder; by default `onnx/` in the run directory.

    >>> from unbraid import Recipe, fit
    >>> recipe = Recipe(data={"name": "sprites32", "subsample": 64}, latent=2, nets="mlp", budget={"steps": 2, "batch": 8})
    >>> folder = write_onnx(fit(recipe, tmp / "run", quiet=True), tmp / "onnx")
    >>> sorted(path.name for path in folder.iterdir())
    ['about.json', 'decoder.onnx', 'encoder.onnx']
    """
    missing = [name for name in REQUIRED_PACKAGES if importlib.util.find_spec(name) is None]
    expect(not missing, f"ONNX needs {', '.join(missing)}", do="Install it with: pip install 'unbraid[export]'")
    folder = ensure_writable_folder(Path(out) if out is not None else run.output_path(ONNX_FOLDER))
    shape, tree = tuple(run.state["shape"]), run.model.tree
    noise = torch.Generator().manual_seed(0)
    images = torch.rand(max(CHECKED_BATCHES), *shape, generator=noise)
    with torch.no_grad():
        codes = run.model.posterior(images).mean
    parts = {
        ENCODER_FILE: (Encoder, images, ["images"], ["mean", "scale"]),
        DECODER_FILE: (Decoder, codes, ["codes"], ["images"]),
    }
    made = {}
    for name, part in parts.items():
        try:
            made[name] = _export_checked(run, *part)
        except UnbraidError:
            raise
        except Exception as error:  # torch and onnxruntime raise many kinds of errors
            message = str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
            raise UnbraidError(f"{name} of {run.path} cannot be written as ONNX: {message}.") from error
    for name, (raw, _) in made.items():
        write_bytes(folder / name, raw)
    likelihood = run.recipe.likelihood.get("name") if run.model.has_elbo else "none"
    about = {
        "name": run.recipe.name,
        "images": ["batch", *shape],
        "pixels": "bytes divided by 255, as in training" if likelihood != "gaussian" else "as in training",
        "codes": ["batch", tree.width],
        "columns": list(tree.column_names),
        "leaves": {leaf.name: {"kind": leaf.kind, "width": leaf.width} for leaf in tree.leaves},
        "names": read_leaf_names(run.path),
        "differs_from_torch_by": {name: difference for name, (_, difference) in made.items()},
    }
    write_json(folder / ABOUT_FILE, about)
    return folder


def _export_checked(
    run: Run, wrapper: Any, example: Tensor, inputs: list[str], outputs: list[str]
) -> tuple[bytes, float]:
    """Export one net; returns the bytes of the ONNX file and the largest difference from torch."""
    import onnxruntime

    # a copy, because tracing modifies the module; in the contiguous memory format, which ONNX supports
    module = wrapper(deepcopy(run.model).to(memory_format=torch.contiguous_format)).eval()  # type: ignore[call-overload]
    with torch.no_grad(), _silence_exporter():
        module(example)  # fills caches before the batch size becomes symbolic
        shapes: Any = ({0: torch.export.Dim("batch", min=1)},)
        names: Any = {"input_names": inputs, "output_names": outputs}
        program = torch.onnx.export(module, (example,), dynamo=True, dynamic_shapes=shapes, **names, verbose=False)
    assert program is not None
    raw = program.model_proto.SerializeToString()
    session = onnxruntime.InferenceSession(raw, providers=["CPUExecutionProvider"])
    difference = 0.0
    for b in CHECKED_BATCHES:
        with torch.no_grad():
            expected = wrapper(run.model)(example[:b])
        outputs_of_onnx = session.run(None, {inputs[0]: example[:b].numpy()})
        for want, got in zip(expected if isinstance(expected, tuple) else (expected,), outputs_of_onnx, strict=True):
            error = float(np.abs(want.numpy() - got).max())
            difference = max(difference, error / max(1.0, float(want.abs().max())))
    expect(
        difference <= TOLERANCE,
        f"the ONNX {wrapper.__name__.lower()} of {run.path} does not compute what torch computes",
        found=f"a difference of {difference:.1e}",
        allowed=f"at most {TOLERANCE:g}",
        do="Nothing was written; please report the net.",
    )
    return raw, difference


@contextmanager
def _silence_exporter() -> Iterator[None]:
    """Suppress the exporter's messages about packages that are not needed."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)
