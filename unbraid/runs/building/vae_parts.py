"""VAEs: the parts of a recipe (data, tree, model, objective, critics), built and checked before training starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from unbraid import data, priors
from unbraid.core import options
from unbraid.core.errors import UnbraidError, choose, expect
from unbraid.data.batches import fetch_batch, permutation
from unbraid.data.dataset import Dataset
from unbraid.latent import Latent
from unbraid.model import LIKELIHOODS, NETS, POSTERIORS, Vae
from unbraid.objectives.objective import Objective
from unbraid.prices import Price, as_schedule
from unbraid.runs.building.custom_parts import NO_CUSTOM_PARTS, CustomParts, check_objects, copy_float32
from unbraid.runs.building.supervision import Supervision, build_supervision, check_supervision
from unbraid.runs.fitting.seeding import default_float32, step_seed
from unbraid.runs.recipe import Recipe
from unbraid.terms.critics import Critic

SAMPLE_STREAM = 1000  # permutation stream of the images that initialise priors; training batches use others


@dataclass(frozen=True)
class VaeParts:
    """The parts of a recipe whose objective is a row of prices; see `unbraid.runs.fitting.protocols.Parts`."""

    recipe: Recipe
    dataset: Dataset
    tree: Latent
    model: Vae
    objective: Objective
    critics: dict[str, Critic]
    temperature: Price
    supervision: Supervision | None = None

    @property
    def modules(self) -> nn.ModuleDict:
        """The model and the critics, for checkpoints."""
        return nn.ModuleDict(
            {"model": self.model, **{f"critic_{name}": critic for name, critic in self.critics.items()}}
        )


def build_parts(
    recipe: Recipe, objective: Objective | None, dataset: Dataset | None = None, custom: CustomParts = NO_CUSTOM_PARTS
) -> VaeParts:
    """Build and check the parts; initial weights are a function of the recipe's seed.

    Args:
        recipe: the recipe.
        objective: its objective; None for one that must be passed as an object, which is an error here.
        dataset: data that replace those of the recipe.
        custom: parts passed as objects; nets keep their own initial weights.
    """
    check_objects(recipe, custom, training=True)
    assert objective is not None
    dataset = load_data(recipe, dataset)
    tree = recipe.tree
    temperature = recipe.temperature
    _check_temperature(temperature)
    objective, supervision = build_supervision(recipe, objective, dataset, tree)
    with torch.random.fork_rng(devices=[]), default_float32():
        torch.manual_seed(step_seed(recipe.seed, -1))
        model = build_model(recipe, dataset.shape, custom, lambda n: sample_images(dataset, n, recipe.seed))
        objective.check(tree, model.prior)
        if supervision is not None:
            check_supervision(supervision, model)
        critics = {name: spec.build(tree, model.prior, model.family) for name, spec in objective.critics.items()}
    what, low, high = f"likelihood {recipe.likelihood.get('name')!r} needs values", *model.pixel_range
    check_pixels(dataset, low, high, what, "Scale the images to that range, or use likelihood 'gaussian'.")
    return VaeParts(recipe, dataset, tree, model, objective, critics, temperature, supervision)


@default_float32()
def build_model(
    recipe: Recipe,
    shape: tuple[int, int, int],
    custom: CustomParts = NO_CUSTOM_PARTS,
    images: Callable[[int], torch.Tensor] | None = None,
) -> Vae:
    """Build the model of a recipe with initial weights and try it on one blank image.

    Args:
        recipe: the recipe.
        shape: channels, height and width of the images.
        custom: parts passed as objects.
        images: images(n) returns up to n training images, for the prior; None when a trained run is opened.
    """
    check_objects(recipe, custom)
    tree = recipe.tree
    likelihood = _build_named(recipe.likelihood, LIKELIHOODS, "likelihood")
    prior = priors.build(recipe.prior, tree) if custom.prior is None else _copy_prior(custom.prior, tree)
    family = choose(recipe.family, POSTERIORS, "posterior family")
    channels = shape[0] * likelihood.maps
    fixed = {"shape": tuple(shape), "tree": tree, "params": family.param_count(tree), "outputs": channels}
    if custom.nets is None:
        encoder, decoder = _build_named(recipe.nets, NETS, "net", **fixed)
    else:
        encoder, decoder = _copy_nets(custom.nets, tuple(shape), tree, family.param_count(tree), recipe.family)
    model = Vae(tree, encoder, decoder, prior, likelihood, family)
    model.discrete = recipe.discrete
    if recipe.supervision.get("given", {}).get("encoder"):
        expect(prior.conditioned, "given.encoder needs prior 'mixture' or 'given_gaussian'", found=repr(prior.name))
        model.state_shift = prior.build_shift(family.param_count(tree))
    prior.attach(model, shape, images)
    with torch.no_grad():
        model.eval()
        out = model.decoder(model.encoder(torch.zeros(1, *shape))[:, : tree.width])
    expect(
        out.shape[1:] == (channels, *shape[1:]),
        "the decoder must return images of the size it was built for",
        found=tuple(out.shape[1:]),
        allowed=(channels, *shape[1:]),
    )
    return model.train()


def _copy_prior(prior: priors.Prior, tree: Latent) -> priors.Prior:
    """Copy a prior passed as an object; it must have the recipe's tree."""
    expect(
        prior.tree == tree,
        "the prior has another latent tree than the recipe",
        found=str(prior.tree),
        allowed=str(tree),
    )
    return copy_float32(prior)


def _copy_nets(
    nets: Any, shape: tuple[int, ...], tree: Latent, params: int, family: str
) -> tuple[nn.Module, nn.Module]:
    """Copy nets passed as objects and try them on one blank image and one code."""
    encoder, decoder = copy_float32(nets[0]), copy_float32(nets[1])
    try:
        with torch.no_grad():
            found = encoder.eval()(torch.zeros(1, *shape))
            decoder.eval()(torch.zeros(1, tree.width))
    except (RuntimeError, TypeError, ValueError, IndexError) as error:
        raise UnbraidError(
            f"the nets do not fit: {error}. "
            f"The encoder must take images of {shape}, the decoder codes of {tree.width} columns."
        ) from error
    expect(
        tuple(found.shape) == (1, params),
        "the encoder must return the parameters of the posterior",
        found=tuple(found.shape),
        allowed=f"b × {params}",
        do=_describe_parameters(tree, params, family),
    )
    return encoder, decoder


def _describe_parameters(tree: Latent, params: int, family: str) -> str:
    """Explain the columns that an encoder returns for a tree."""
    real = sum(leaf.width for leaf in tree.leaves if leaf.kind == "real")
    others = tree.width - real
    parts = [f"means of {real} real columns, then their log-scales"] if real else []
    if family not in ("diagonal", "laplace") and real:
        parts = [f"the parameters of posterior {family!r} for {real} real columns"]
    parts += [f"{others} logits of discrete leaves"] if others else []
    return f"The columns are {' and '.join(parts)}: {params} for {tree}."


def load_data(recipe: Recipe, dataset: Dataset | None) -> Dataset:
    """Load the data of a recipe and check that a batch fits.

    Args:
        recipe: the recipe.
        dataset: data that replace those of the recipe, or None.
    """
    table = dict(recipe.data)
    found = data.load(table.pop("name", ""), **table) if dataset is None else dataset
    expect(
        recipe.budget.batch <= len(found),
        "a batch is drawn without replacement, so it must not exceed the data",
        found=f"batch {recipe.budget.batch}, {len(found)} images",
        do="Lower budget.batch.",
    )
    return found


def sample_images(dataset: Dataset, n: int, seed: int = 0) -> torch.Tensor:
    """Draw up to n images without replacement, to initialise a prior.

    Args:
        dataset: the training data.
        n: the largest number of images.
        seed: the seed of the run.
    """
    index = np.sort(permutation(seed, SAMPLE_STREAM, 0, len(dataset))[:n])
    return fetch_batch(dataset.images, index, torch.device("cpu"))


def _build_named(spec: dict[str, Any], table: dict[str, Any], what: str, **fixed: Any) -> Any:
    plain = dict(spec)
    name = plain.pop("name", "")
    return options.call_with_options(choose(name, table, what), plain, f"{what} {name!r}", **fixed)


def _check_temperature(temperature: Price) -> None:
    ends = as_schedule(temperature).endpoints()
    expect(ends is not None, "posterior.temperature must be a number or a schedule from start to stop")
    assert ends is not None
    expect(all(0 < t <= 100 for t in ends), "posterior.temperature must be above 0 and at most 100", found=ends)


def check_pixels(
    dataset: Dataset, least: float, most: float, requirement: str, do: str, chunk_size: int = 4096
) -> None:
    """Check that float images are finite and in the range of the model; bytes and bits are always in [0, 1].

    Args:
        dataset: the training data.
        least: the smallest pixel value that the model accepts.
        most: the largest.
        requirement: the first words of the error.
        do: what to do, for the error.
        chunk_size: images that are read at a time.
    """
    images = dataset.images
    if images.take(np.zeros(1, np.int64)).dtype.kind != "f":
        return
    low, high = np.inf, -np.inf
    for start in range(0, len(images), chunk_size):
        part = images.take(np.arange(start, min(start + chunk_size, len(images))))
        low, high = min(low, float(part.min())), max(high, float(part.max()))
        expect(
            np.isfinite(low) and np.isfinite(high),
            f"data {dataset.name!r} must not hold NaN or infinite pixels",
            found=f"between images {start} and {start + len(part) - 1}",
            do="Repair or drop those images.",
        )
    expect(
        least <= low and high <= most,
        f"{requirement} in [{least:g}, {most:g}]",
        found=f"values from {low:g} to {high:g}",
        do=do,
    )
