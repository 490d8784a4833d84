"""What an objective is: a row of prices over the terms of one decomposition of the KL.

Keys read `term[:node][@how]`: what, where, by what means. Terms form a tree, `kl → {mi, agg}`, `agg → {tc, dw}`:
pricing a parent prices all below it, and the effective price of a term is the sum along its path.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unbraid.errors import UnbraidError, choose, expect, listing
from unbraid.latent import Latent
from unbraid.ledger import Ledger, charge
from unbraid.schedule import Capacity, Price, value

if TYPE_CHECKING:
    from unbraid.model.draw import Draw
    from unbraid.priors.base import Prior
    from unbraid.terms.critics import Critic

FOREVER = 10**12
SAME_KL = ("", "ratio", "sample", "categorical", "exclusive_kl")  # means that estimate that very KL


@dataclass(frozen=True)
class Objective:
    """A row: prices by key, the estimator of q(z) it needs, and the critics behind its `@` terms."""

    name: str
    prices: Mapping[str, Price]
    cite: str
    estimator: str = ""
    critics: Mapping[str, Any] = field(default_factory=dict)

    def rows(self, tree: Latent, prior: Prior | None = None) -> dict[str, Price]:
        """The prices with general tc and tc_q spelled out branch by branch; `tc:v` replaces `tc` at v.

        Branches below the prior's finest cut are left to dw, which is then KL(q(z_g) ‖ p(z_g)) of whole groups.
        """
        rows: dict[str, Price] = {}
        for key, price in self.prices.items():
            term, node, how = split_key(key)
            if term in ("tc", "tc_q") and not node and not how:
                for branch in tree.branches:
                    if f"{term}:{branch.name}" not in self.prices:
                        rows[f"{term}:{branch.name}"] = price
            else:
                rows[key] = price
        if prior is not None:
            groups = set(prior.finest)
            for branch in tree.branches:
                if branch.name in groups or not prior.knows(branch.name):
                    rows.pop(f"tc:{branch.name}", None)
        return rows

    def check(self, tree: Latent, prior: Prior) -> None:
        """Errors before work starts: unknown keys or nodes, prices below the prior's marginals, a missing estimator."""
        from unbraid.terms import ESTIMATORS, PAIRWISE, TERMS

        provided = {key for spec in self.critics.values() for key in spec.keys}
        for key in self.prices:
            term, node, how = split_key(key)
            plain = f"{term}@{how}" if how else term
            if plain not in provided:
                choose(plain, {**TERMS, **dict.fromkeys(provided)}, f"term in objective {self.name!r}")
            if node:
                tree.index(node)
                expect(term in ("mi", "tc", "tc_q"), f"objective {self.name!r} prices {key!r}, but {term!r} has no price per node",
                       allowed="mi, tc, tc_q")
            if term in PAIRWISE and not how:
                choose(self.estimator, ESTIMATORS, f"estimator of objective {self.name!r}")
        self._check_marginals(tree, prior)

    def _check_marginals(self, tree: Latent, prior: Prior) -> None:
        below = [b.name for b in tree.branches if b.name in prior.finest or not prior.knows(b.name)]
        whole = self.rows(tree)
        if "dw" not in whole and not any(split_key(k)[0] == "tc" and not split_key(k)[2] for k in whole):
            return
        for name in below:
            inside = whole.get(f"tc:{name}", 0.0)
            if inside != whole.get("dw", 0.0):
                group = next((g for g in prior.finest if name in tree.below(g)), name)
                known = [n for n in tree.names if prior.knows(n)]
                raise UnbraidError(
                    f"{self.name} prices 'tc:{name}' at {inside} and 'dw' at {whole.get('dw', 0.0)}, but prior "
                    f"{type(prior).__name__.lower()} has marginals only at: {listing(known)}. Give both the same price (then KL(q‖p) of "
                    f"{group!r} is charged as a whole), use tc_q and dw_joint, or use prior 'gaussian'.")

    def effective(self) -> dict[str, Any]:
        """Effective prices of mi, tc between groups (root), tc within them, and dw: sums along the path in the tree of terms."""
        at = {key: _number(price) for key, price in self.prices.items() if not isinstance(price, Capacity)}

        def total(term: str, node: str = "") -> Any:
            own = [p for key, p in at.items() if split_key(key)[0] == term and split_key(key)[2] in SAME_KL
                   and (split_key(key)[1] == node or not split_key(key)[1] and not (node and f"{term}:{node}" in at))]
            return sum(own, 0)

        kl, agg = total("kl"), total("agg")
        tc = {node: total("tc", node) + total("tc_q", node) for node in ("root", "")}
        return {"mi": kl + total("mi"), "tc between": kl + agg + tc["root"], "tc within": kl + agg + tc[""],
                "dw": kl + agg + total("dw") + total("dw_joint")}

    def __call__(self, draw: Draw, step: int = 0, critics: Mapping[str, Critic] | None = None, rows: Mapping[str, Price] | None = None,
                 also: Iterable[str] = ()) -> Ledger:
        """Charge every priced term (and nothing else) for one draw; `also` names terms to enter without a price."""
        from unbraid.terms import TERMS

        rows = self.rows(draw.tree, draw.model.prior) if rows is None else rows
        given: dict[str, Any] = {}
        for critic in (critics or {}).values():
            given.update(critic(draw))
        nats: dict[str, Any] = {}
        prices: dict[str, float] = {}
        loss: Any = 0.0
        for key in ("reconstruction", *rows, *also):
            if key in nats:
                continue
            term, node, how = split_key(key)
            found = given[key] if key in given else TERMS[f"{term}@{how}" if how else term](draw, node)
            mean = found.mean()
            if key in rows or key == "reconstruction":
                price = rows.get(key, 1.0)
                loss = loss + charge(price, mean, step)
                prices[key] = price.gamma if isinstance(price, Capacity) else value(price, step)
            nats[key] = mean.detach()
        return Ledger(nats, prices, loss)


def split_key(key: str) -> tuple[str, str, str]:
    """`term[:node][@how]` in three parts.

    >>> split_key("tc:pose"), split_key("tc_q@ratio")
    (('tc', 'pose', ''), ('tc_q', '', 'ratio'))
    """
    left, _, how = key.partition("@")
    term, _, node = left.partition(":")
    return term, node, how


def _number(price: Any) -> Any:
    return value(price, FOREVER)
