"""The ledger of one step: the value of each term in nats, its price, and whether the terms add up to the KL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unbraid.terms import TERMS

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Ledger:
    """Terms in nats per example, the prices charged at this step, and the loss they add up to.

    Args:
        nats: the terms.
        prices: the prices by key.
        loss: the loss.
        methods: how a term was computed where there are two ways: the KL 'closed' or 'sampled'.

    >>> import torch
    >>> ledger = Ledger({"reconstruction": torch.tensor(80.0), "kl": torch.tensor(9.0)}, {"kl": 4.0}, torch.tensor(116.0))
    >>> ledger.elbo
    -89.0
    """

    nats: dict[str, Tensor]
    prices: dict[str, float]
    loss: Tensor
    methods: Mapping[str, str] = field(default_factory=dict)

    @property
    def elbo(self) -> float | None:
        """−(reconstruction + KL) in nats, when a KL was entered."""
        kl = self.nats.get("kl", self.nats.get("kl@sample"))
        return None if kl is None else -float(self.nats["reconstruction"] + kl)

    @property
    def balance(self) -> float | None:
        """mi + Σ tc + dw − kl@sample (or the same with tc_q and dw_joint): 0 up to rounding, for every estimator."""
        for tc, dw in (("tc", "dw"), ("tc_q", "dw_joint")):
            between = [n for key, n in self.nats.items() if key.split(":")[0] == tc]
            if {"mi", dw, "kl@sample"} <= set(self.nats) and between:
                return float(self.nats["mi"] + sum(between) + self.nats[dw] - self.nats["kl@sample"])
        return None

    def to_record(self, **extra: Any) -> dict[str, Any]:
        """Plain numbers, for one line of `ledger.jsonl`."""
        nats = {key: round(float(n), 6) for key, n in self.nats.items()}
        line = {**extra, "loss": round(float(self.loss.detach()), 6), "nats": nats, "prices": self.prices}
        return {**line, "how": dict(self.methods)} if self.methods else line


def short_name(key: str) -> str:
    """A term's name for a narrow line.

    Args:
        key: the key of the term, `term[:node][@how]`.
    """
    return (TERMS[key].short_name if key in TERMS else "") or key
