"""Supervision of a run: pairs, labelled images and states u, from the table [supervision] of its recipe, checked before training.

A row of prices says what it needs, and the table where it comes from. A tie and a label term may also be added to any row here.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch

from unbraid.core import distributed, options
from unbraid.core.errors import choose, expect
from unbraid.data.batches import batch_indices, fetch_batch
from unbraid.data.custom.conversion import cache_rows
from unbraid.data.dataset import Dataset
from unbraid.data.pairs import PairStream, build_pair_source, check_pairs
from unbraid.data.partial_labels import (
    LABEL_STREAM,
    PartialLabels,
    image_numbers,
    labels_from_file,
    labels_of_factors,
    real_values,
    reduce_labels,
    standardise_values,
    state_numbers,
)
from unbraid.latent import Latent
from unbraid.model import Vae
from unbraid.model.draw import Draw, LabelledRows
from unbraid.model.ties import Tie, check_tie
from unbraid.objectives.objective import Objective
from unbraid.prices import Price
from unbraid.runs.building.supervision_options import GivenOptions, LabelOptions, PairOptions, SupervisionOptions
from unbraid.runs.recipe import Recipe
from unbraid.terms import TERMS, critic_specs, plain_key
from unbraid.terms.label_terms import LOSSES, LabelFactor, LabelsSpec


@dataclass(frozen=True)
class LabelledBatches:
    """Batches of labelled images, drawn apart from the other batches as a function of seed and step.

    Args:
        labels: the labels.
        batch_size: labelled images per step.
        seed: seed of the run.
    """

    labels: PartialLabels
    batch_size: int
    seed: int

    @cached_property
    def rows(self) -> np.ndarray:
        """The labelled images."""
        return self.labels.rows

    def indices(self, step: int) -> np.ndarray:
        """The labelled images of a step.

        Args:
            step: the step, counted from 0.
        """
        return self.rows[batch_indices(self.seed, step, len(self.rows), self.batch_size, LABEL_STREAM)]


@dataclass(frozen=True)
class Supervision:
    """What a step reads besides a batch of images.

    Args:
        pairs: the pairs, or None.
        tie: what the views of a pair share.
        labelled: batches of labelled images, or None.
        states: u of every image, or None.
    """

    pairs: PairStream | None = None
    tie: Tie | None = None
    labelled: LabelledBatches | None = None
    states: np.ndarray | None = None

    @property
    def checksum(self) -> str:
        """A checksum of labels, listed pairs and u, which may come from files beside the data, for run.json."""
        labels = "" if self.labelled is None else self.labelled.labels.checksum
        pairs = "" if self.pairs is None else self.pairs.source.checksum
        states = "" if self.states is None else f"{zlib.crc32(np.ascontiguousarray(self.states).tobytes()):08x}"
        return "-".join(filter(None, (labels, pairs, states)))

    def draw(
        self, model: Vae, dataset: Dataset, step: int, index: np.ndarray, device: torch.device, estimator: Any
    ) -> Draw:
        """The draw of a step with its partners, labelled rows and states.

        Args:
            model: the model.
            dataset: the training data.
            step: the number of the batch.
            index: the images of a plain batch, which a run without pairs uses.
            device: device of the tensors.
            estimator: what stands for q(z).
        """

        def images(at: np.ndarray) -> torch.Tensor:
            return fetch_batch(dataset.images, distributed.local_rows(at), device)

        states = None if self.states is None else torch.from_numpy(self.states[index]).to(device)
        if self.pairs is None:
            draw = model.draw(images(index), len(dataset), estimator, states=states)
        else:
            views, changed = self.pairs.views(step)
            differ = None if changed is None else torch.from_numpy(changed).to(device)
            draw = model.draw_views([images(at) for at in views], len(self.pairs), estimator, self.tie, differ)
        labelled = None
        if self.labelled is not None:
            at = self.labelled.indices(step)
            labels = self.labelled.labels
            params = distributed.all_gather_rows(model.encoder(images(at)))
            q = model.family.from_params(model.tree, params, model.temperature)
            values = torch.from_numpy(labels.values[at]).to(q.loc)
            labelled = LabelledRows(q, values, torch.from_numpy(labels.known[at]).to(device))
        return replace(draw, labelled=labelled) if labelled is not None else draw


def build_supervision(
    recipe: Recipe, objective: Objective, dataset: Dataset, tree: Latent
) -> tuple[Objective, Supervision | None]:
    """The supervision of a recipe, and the row with its tie and label term; None for a row that reads single images.

    Args:
        recipe: the recipe.
        objective: the row that it names.
        dataset: the training data.
        tree: the latent tree.
    """
    table = options.build_record(SupervisionOptions, dict(recipe.supervision), "[supervision]")
    objective = _add_tie(objective, table)
    objective, labelled = _build_labels(recipe, objective, table.labels, dataset, tree)
    pairs = _build_pairs(recipe, objective, table, dataset)
    tie = objective.tie
    if tie is not None and tie.shared == "changed":
        assert pairs is not None
        expect(
            pairs.source.factors,
            "shared = 'changed' needs pairs that say which factors differ",
            found=f"pairs by {(table.pairs or {}).get('source')!r}",
            do="Use pairs by factors, or shared = 'adaptive'.",
        )
        tie = replace(tie, factor_leaves=assign_leaves(pairs.source.factors, table.leaves, tree))
    states = _build_states(objective, table.given, dataset, recipe.prior.get("name") == "given_gaussian")
    expect(
        states is None or pairs is None,
        "p(z|u) of pairs is not defined here: two views would share u or not",
        found="[supervision.pairs] and kl@given",
        do="Leave one of them out.",
    )
    if pairs is None and labelled is None and states is None:
        return objective, None
    return objective, Supervision(pairs, tie, labelled, states)


def check_supervision(supervision: Supervision, model: Vae) -> None:
    """Raise an error where the model does not allow the supervision; a prior p(z|u) sees u of the training images.

    Args:
        supervision: the supervision.
        model: the model.
    """
    if supervision.pairs is not None and supervision.tie is not None:
        views = len(supervision.pairs.views(0)[0])
        check_tie(supervision.tie, model.tree, model.family, views)
    if supervision.states is not None and model.prior.conditioned:
        model.prior.observe(torch.from_numpy(supervision.states))


def recipe_with_pairs(recipe: Recipe, pairs: Any, dataset: Dataset | None) -> Recipe:
    """A recipe that reads these pairs from a file in the cache, named by its content, so that the run can be resumed.

    Args:
        recipe: the recipe.
        pairs: numbers of images, (m, 2), or (m, g) for groups.
        dataset: the data that they number; None for the whole data set that the recipe names.
    """
    table = dict(recipe.supervision.get("pairs", {}))
    expect("source" not in table, "pairs come once: as an argument or in [supervision.pairs]", found=f"{table}")
    numbers = check_pairs(pairs, len(dataset) if dataset is not None else 2**62)
    numbers = image_numbers(dataset.images)[numbers] if dataset is not None else numbers
    _, path = cache_rows(iter(numbers), lambda: None)
    table |= {"source": "columns", "file": str(path), "group": numbers.shape[1]}
    return recipe.model_copy(update={"supervision": {**recipe.supervision, "pairs": table}})


def _add_tie(objective: Objective, table: SupervisionOptions) -> Objective:
    if not table.tie:
        return objective
    expect(
        objective.tie is None,
        f"objective {objective.name!r} has a tie of its own",
        found=f"supervision.tie = {table.tie!r}",
        do="Leave one of them out.",
    )
    shared = table.shared if isinstance(table.shared, str) else tuple(table.shared)
    shared = (shared,) if isinstance(shared, str) and shared not in ("adaptive", "changed") else shared
    return replace(objective, tie=Tie(table.tie, shared))


def _build_pairs(
    recipe: Recipe, objective: Objective, table: SupervisionOptions, dataset: Dataset
) -> PairStream | None:
    needed = objective.needs_rows("pairs")
    expect(
        not needed or table.pairs is not None,
        f"objective {objective.name!r} needs pairs of images, and none are given",
        do='Add [supervision.pairs], such as {source = "factors", k = 1} or {source = "frames"}; in Python '
        "also pairs = an array of row numbers (m, 2).",
    )
    if table.pairs is None:
        return None
    expect(
        needed,
        f"objective {objective.name!r} reads no pairs",
        found="[supervision.pairs]",
        do='Set supervision.tie = "group", or use a row such as ada_gvae or slow_vae.',
    )
    plain = dict(table.pairs)
    own = {key: plain.pop(key) for key in ("source", "group", "n", "seed") if key in plain}
    chosen = options.build_record(PairOptions, own, "[supervision.pairs]")
    expect(chosen.n >= 0, "the number of pairs cannot be negative", found=chosen.n)
    source = build_pair_source(dataset, chosen.source, chosen.group, **plain)
    count = chosen.n or source.count
    expect(
        recipe.budget.batch <= count,
        "a batch of pairs must not exceed the pairs",
        found=f"batch {recipe.budget.batch}, {count:,} pairs",
        do="Lower budget.batch, or raise supervision.pairs.n.",
    )
    return PairStream(source, recipe.budget.batch, recipe.seed, chosen.n, chosen.seed)


def _build_labels(
    recipe: Recipe, objective: Objective, chosen: LabelOptions | None, dataset: Dataset, tree: Latent
) -> tuple[Objective, LabelledBatches | None]:
    needed = objective.needs_rows("labels")
    if chosen is None:
        if not needed:
            return objective, None
        chosen = LabelOptions()  # all labels of the data set
    if not needed:
        choose(chosen.loss, LOSSES, "loss of labels")
        prices = {**objective.prices, f"labels@{chosen.loss}": chosen.price}
        specs = {**objective.critics, **critic_specs([f"labels@{chosen.loss}"])}
        objective = replace(objective, prices=prices, critics=specs)
    labels = _read_labels(dataset, chosen.file, chosen.factors)
    labels = reduce_labels(labels, chosen.n, chosen.seed, chosen.missing, chosen.noise, chosen.bins, chosen.permute)
    names = [factor.name for factor in labels.factors]
    leaves = None if chosen.leaves == "match" else assign_leaves(names, chosen.leaves, tree)
    factors = tuple(_describe_factor(labels, k) for k in range(len(labels.factors)))
    specs = {
        name: replace(spec, factors=factors, leaves=leaves) if isinstance(spec, LabelsSpec) else spec
        for name, spec in objective.critics.items()
    }
    size = chosen.batch or min(recipe.budget.batch, len(labels.rows))
    ranks = distributed.torchrun_rank_info().size
    size -= size % ranks if not chosen.batch else 0
    expect(
        2 <= size <= len(labels.rows) and size % ranks == 0,
        "a batch of labelled images has at least two and at most all of them, in equal parts for all ranks",
        found=f"{size} of {len(labels.rows)} labelled images, {ranks} ranks",
        do="Set supervision.labels.batch.",
    )
    return replace(objective, critics=specs), LabelledBatches(labels, size, recipe.seed)


def _read_labels(dataset: Dataset, file: str, factors: list[str] | None) -> PartialLabels:
    return labels_from_file(dataset, file, factors or ()) if file else labels_of_factors(dataset, factors or ())


def _describe_factor(labels: PartialLabels, k: int) -> LabelFactor:
    item, values = labels.factors[k], labels.values[labels.known[:, k], k]
    low, high = (0.0, float(item.size - 1)) if item.size else (float(values.min()), float(values.max()))
    return LabelFactor(item.name, item.size, low, high, float(values.mean()), float(values.std()))


def assign_leaves(names: tuple[str, ...] | list[str], leaves: str | Mapping[str, str], tree: Latent) -> tuple[int, ...]:
    """The leaf of each factor, as positions among the leaves.

    Args:
        names: names of the factors.
        leaves: leaf names by factor, 'name', 'order', or "" for 'name' where that is possible, else 'order'.
        tree: the latent tree.
    """
    known = [leaf.name for leaf in tree.leaves]
    if isinstance(leaves, Mapping):
        missing = [name for name in names if name not in leaves]
        expect(not missing, "every labelled factor needs a leaf", found=f"none for {', '.join(missing)}")
        chosen = [str(leaves[name]) for name in names]
    else:
        expect(
            leaves in ("", "name", "order"),
            "the leaves of factors are a table, 'name', 'order' or, for labels, 'match'",
            found=repr(leaves),
        )
        by_name = leaves == "name" or (not leaves and set(names) <= set(known))
        expect(
            by_name or len(names) <= len(known),
            "every labelled factor needs a leaf",
            found=f"{len(names)} factors, {len(known)} leaves",
            do="Raise latent, or list fewer factors.",
        )
        chosen = list(names) if by_name else known[: len(names)]
    for factor, leaf in zip(names, chosen, strict=True):
        expect(
            leaf in known, f"factor {factor!r} has no leaf {leaf!r}", allowed=known, do="Set leaves in [supervision]."
        )
    expect(len(set(chosen)) == len(chosen), "two factors cannot have one leaf", found=", ".join(chosen))
    return tuple(known.index(leaf) for leaf in chosen)


def _build_states(objective: Objective, chosen: GivenOptions | None, dataset: Dataset, real: bool) -> np.ndarray | None:
    """u of every image: the number of a state, or real numbers "n k" with mean 0 and deviation 1."""
    needed = objective.needs_rows("states")
    expect(
        needed or chosen is None,
        f"objective {objective.name!r} reads no u",
        found="[supervision.given]",
        do="Use objective i_vae, or price kl@given.",
    )
    if not needed:
        return None
    chosen = chosen or GivenOptions()
    if chosen.time:
        expect(
            2 <= chosen.time <= len(dataset),
            "time is cut into 2 to as many parts as there are images",
            found=chosen.time,
        )
        time = np.arange(len(dataset)) * chosen.time // len(dataset)
        return standardise_values(time[:, None]) if real else time
    labels = reduce_labels(_read_labels(dataset, chosen.file, chosen.factors), bins=chosen.bins)
    return real_values(labels) if real else state_numbers(labels)[0]


def without_supervision(prices: Mapping[str, Price]) -> dict[str, Price]:
    """The prices of terms that read single images, for a validation.

    Args:
        prices: prices by key.
    """
    supervised = {"pairs", "labels", "states"}
    return {key: price for key, price in prices.items() if not supervised & set(TERMS[plain_key(key)].needs)}
