"""The ledger of one step: what each term costs in nats, what was charged for it, and whether the books balance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unbraid.ground.schedule import Capacity, Price, value

if TYPE_CHECKING:
    from torch import Tensor


@dataclass(frozen=True)
class Ledger:
    """Terms in nats per example, the prices charged at this step, and the loss they add up to."""

    nats: dict[str, Tensor]
    prices: dict[str, float]
    loss: Tensor

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

    def record(self, **more: Any) -> dict[str, Any]:
        """Plain numbers, for one line of `ledger.jsonl`."""
        nats = {key: round(float(n), 6) for key, n in self.nats.items()}
        return {**more, "loss": round(float(self.loss.detach()), 6), "nats": nats, "prices": self.prices}


def charge(price: Price, nats: Tensor, step: int) -> Tensor:
    """Price × nats; for a capacity γ·|nats − C(step)| of the batch mean. Burgess et al. 2018."""
    if isinstance(price, Capacity):
        return price.gamma * (nats - price.at(step)).abs()
    now = value(price, step)
    return nats if now == 1 else now * nats


def short(key: str) -> str:
    """A term's name for a narrow line."""
    return {"reconstruction": "rec", "tc_q@ratio": "tc"}.get(key, key)
