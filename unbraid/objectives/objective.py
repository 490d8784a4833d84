"""What an objective is: a row of prices over the terms of one decomposition of the KL.

Keys read `term[:node][@how]`: what, where, by what means. See `prices` for how they add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from unbraid.ground.errors import UnbraidError, choose, expect, listing, nearest
from unbraid.ground.schedule import Capacity, Price, value
from unbraid.latent import Latent
from unbraid.objectives import prices as arithmetic
from unbraid.objectives.ledger import Ledger, charge
from unbraid.objectives.prices import split_key

if TYPE_CHECKING:
    from unbraid.model.draw import Draw
    from unbraid.priors.base import Prior
    from unbraid.terms.critics import Critic
    from unbraid.terms.estimators import Estimator


@dataclass(frozen=True)
class Objective:
    """A row: prices by key, the estimator of q(z) it needs, and the critics behind its `@` terms.

    `prior` names the priors the row is defined with ("" for any); `mixed` asks for a tree with discrete leaves.
    """

    name: str
    prices: Mapping[str, Price]
    cite: str
    estimator: str = ""
    critics: Mapping[str, Any] = field(default_factory=dict)
    prior: tuple[str, ...] = ()
    mixed: bool = False

    def __post_init__(self) -> None:
        from unbraid.terms.bank import BankSpec

        if not self._pairwise:
            object.__setattr__(self, "estimator", "")  # no price asks for q(z)
        elif self.estimator.startswith(BankSpec.name):
            bank = BankSpec(arithmetic.number(self.estimator, BankSpec.name, BankSpec.rows))
            object.__setattr__(self, "critics", {**self.critics, BankSpec.name: bank})

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
        """Errors before work starts: unknown keys or nodes, an unfit prior or estimator, missing marginals."""
        from unbraid.terms import ESTIMATORS, TERMS
        from unbraid.terms.bank import BankSpec

        provided = {key for spec in self.critics.values() for key in spec.keys}
        for key in self.prices:
            term, node, how = split_key(key)
            plain = f"{term}@{how}" if how else term
            if plain not in provided:
                choose(plain, {**TERMS, **dict.fromkeys(provided)}, f"term in objective {self.name!r}")
            if node:
                expect(
                    node in tree.names,
                    f"objective {self.name!r} prices {key!r}, but the latent tree has no node {node!r}",
                    allowed=tree.names,
                    do=f"Rename the node in latent, or name another one in the objective's "
                    f"options.{nearest(node, tree.names)}",
                )
                expect(
                    term in ("mi", "tc", "tc_q"),
                    f"objective {self.name!r} prices {key!r}",
                    found=f"{term!r}, which has no price per node",
                    allowed="mi, tc, tc_q",
                )
        if self._pairwise and BankSpec.name not in self.critics:
            choose(self.estimator, {**ESTIMATORS, BankSpec.name: None}, f"estimator of objective {self.name!r}")
        self._check_latents(tree, prior)
        self._check_marginals(tree, prior)

    @property
    def _pairwise(self) -> bool:
        """True when some price needs q(z) by an estimator."""
        from unbraid.terms import PAIRWISE

        return any(split_key(key)[0] in PAIRWISE and not split_key(key)[2] for key in self.prices)

    def _check_latents(self, tree: Latent, prior: Prior) -> None:
        from unbraid.terms import MOVES_PRIOR

        # a joint prior may hold the one asked for
        kinds = {type(module).__name__.lower() for module in prior.modules()}
        if self.prior and not kinds & {name.replace("_", "") for name in self.prior}:
            asked, found = " or ".join(map(repr, self.prior)), type(prior).__name__.lower()
            row = self.name.replace("isa_", "beta_")
            raise UnbraidError(
                f"objective {self.name!r} is defined with prior {asked}: found {found!r}. "
                f"Set prior.name to {self.prior[0]!r}, or use the same row under its own name, {row!r}."
            )
        expect(
            not self.mixed or not tree.all_real,
            f"objective {self.name!r} needs a tree with discrete leaves",
            found=str(tree),
            do='Add one, such as latent = {digit = "onehot(10)", style = 10}, or use beta_vae.',
        )
        if any(p.requires_grad for p in prior.parameters()):
            moved = any((f"{t}@{how}" if how else t) in MOVES_PRIOR for t, _, how in map(split_key, self.prices))
            expect(
                moved,
                f"objective {self.name!r} cannot train a learned prior",
                found=f"prices on {listing(self.prices)}",
                do="Fix the prior (learned = false), or price one of: " + listing(MOVES_PRIOR) + ".",
            )

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
                    f"{type(prior).__name__.lower()} has marginals only at: {listing(known)}. Give both the same price "
                    f"(then KL(q‖p) of {group!r} is charged as a whole), use tc_q and dw_joint, or prior 'gaussian'."
                )

    def effective(self) -> dict[str, Any]:
        """Effective prices of mi, tc between, tc within, dw. See `prices.effective`."""
        return arithmetic.effective(self.prices)

    def apart(self) -> dict[str, Any]:
        """Prices in a unit of their own. See `prices.apart`."""
        return arithmetic.apart(self.prices)

    def mixture(self, critics: Mapping[str, Critic]) -> Estimator | None:
        """What stands for q(z) in this row: a function of the batch, or the memory bank among the critics."""
        from unbraid.terms import ESTIMATORS
        from unbraid.terms.bank import Bank

        banks = [critic for critic in critics.values() if isinstance(critic, Bank)]
        return banks[0].mixture if banks else ESTIMATORS.get(self.estimator)

    def __call__(
        self,
        draw: Draw,
        step: int = 0,
        critics: Mapping[str, Critic] | None = None,
        rows: Mapping[str, Price] | None = None,
        also: Iterable[str] = (),
    ) -> Ledger:
        """Charge every priced term (and nothing else) for one draw; `also` names terms to enter without a price."""
        from unbraid.terms import TERMS

        rows = self.rows(draw.tree, draw.model.prior) if rows is None else rows
        given: dict[str, Any] = {}
        for critic in (critics or {}).values():
            given.update(critic(draw))
        nats: dict[str, Any] = {}
        prices: dict[str, float] = {}
        loss: Any = None
        for key in ("reconstruction", *rows, *also):
            if key in nats:
                continue
            term, node, how = split_key(key)
            found = given[key] if key in given else TERMS[f"{term}@{how}" if how else term](draw, node)
            mean = found.mean()
            if key in rows or key == "reconstruction":
                price = rows.get(key, 1.0)
                cost = charge(price, mean, step)
                loss = cost if loss is None else loss + cost
                prices[key] = price.gamma if isinstance(price, Capacity) else value(price, step)
            nats[key] = mean.detach()
        return Ledger(nats, prices, loss)
