"""Options of the table [supervision] of a recipe."""

from __future__ import annotations

from dataclasses import dataclass

from unbraid.prices import Price


@dataclass(frozen=True)
class PairOptions:
    """The table [supervision.pairs]; further keys are options of the source.

    Args:
        source: a key of `PAIR_SOURCES`: factors, frames or columns.
        group: number of views.
        n: number of pairs that exist; 0 draws a new partner every time.
        seed: seed of a limited number of pairs.
    """

    source: str = "factors"
    group: int = 2
    n: int = 0
    seed: int = 0


@dataclass(frozen=True)
class LabelOptions:
    """The table [supervision.labels].

    Args:
        file: a .csv, .tsv, .npz or .npy file; by default the factors of the data set.
        factors: the factors to use, by default all that vary.
        leaves: the leaf of each factor by name, 'name', 'order' (the first leaves), or 'match' (learned); by default 'name'
            where every factor has a leaf of its name, else 'order'.
        batch: labelled images per step; 0 takes as many as a batch has, or all of them.
        loss: label term that is added to a row without one.
        price: its price.
        n: number of labelled images; 0 keeps all.
        seed: seed of all draws below, the same for every run.
        missing: share of the entries that are deleted.
        noise: share of the entries that are replaced by a random value.
        bins: values are grouped into at most this many.
        permute: values are renumbered at random.
    """

    file: str = ""
    factors: list[str] | None = None
    leaves: str | dict[str, str] = ""
    batch: int = 0
    loss: str = "bce"
    price: Price = 10.0
    n: int = 0
    seed: int = 0
    missing: float = 0.0
    noise: float = 0.0
    bins: int = 0
    permute: bool = False


@dataclass(frozen=True)
class GivenOptions:
    """The table [supervision.given]: what u in p(z|u) is.

    Args:
        factors: the factors whose joint value is u; with prior 'given_gaussian' their values as real numbers.
        file: a file of labels; by default the factors of the data set.
        time: number of equal stretches of the data, in order, whose number is u; as many as there are images for a real time.
        bins: values of factors are joined to at most this many.
        encoder: the encoder sees u: a learned function of u is added to its output. Where u is not known, as for codes and
            scores, the mean of this function over p(u) is.
    """

    factors: list[str] | None = None
    file: str = ""
    time: int = 0
    bins: int = 0
    encoder: bool = False


@dataclass(frozen=True)
class SupervisionOptions:
    """The table [supervision] of a recipe.

    Args:
        pairs: where pairs come from.
        tie: a tie that is added to any row: group, ml or product.
        shared: what the tie shares: 'adaptive', 'changed' or names of nodes.
        leaves: with 'changed', the leaf of each factor by name; by default as for labels.
        labels: where labels come from.
        given: what u is.
    """

    pairs: dict | None = None
    tie: str = ""
    shared: str | list[str] = "adaptive"
    leaves: str | dict[str, str] = ""
    labels: LabelOptions | None = None
    given: GivenOptions | None = None
