"""Objectives: a row of prices over the terms of one decomposition of the KL.

Keys read `term[:node][@how]`: term, node and method. `row_prices` explains how they add up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from unbraid.core.papers import papers_in
from unbraid.latent import Latent
from unbraid.model import closed_form_kl
from unbraid.model.ties import Tie
from unbraid.objectives import checks
from unbraid.objectives import row_prices as arithmetic
from unbraid.objectives.ledger import Ledger
from unbraid.prices import Price, as_schedule
from unbraid.terms import ESTIMATORS, TERMS, Bank, BankSpec, plain_key, split_key, value_of

if TYPE_CHECKING:
    from unbraid.model.draw import Draw
    from unbraid.priors.base import Prior
    from unbraid.terms.critics import Critic
    from unbraid.terms.estimators import Estimator

SUPERVISION_WORDS = {"pairs": "pairs", "labels": "labels of some images", "states": "u of every image (labels or time)"}


@dataclass(frozen=True)
class Objective:
    """A row: prices by key, the estimator of q(z) it needs, and the critics behind its `@` terms.

    Args:
        name: the name of the row.
        prices: a number or schedule for each key `term[:node][@how]`.
        cite: the papers.
        estimator: the estimator of q(z), by name; "" if no price needs one.
        critics: options of the critics that compute `@` terms, by the name of the critic.
        prior: the priors that the row is defined for; empty for any.
        mixed: the tree must have discrete leaves.
        tie: what the views of a pair share.

    >>> row = Objective("mine", {"mi": 1.0, "tc": 4.0, "dw": 1.0}, "this library", "stratified")
    >>> row.effective_prices()["tc between"], row.needs()
    (4.0, ['estimator stratified'])
    """

    name: str
    prices: Mapping[str, Price]
    cite: str
    estimator: str = ""
    critics: Mapping[str, Any] = field(default_factory=dict)
    prior: tuple[str, ...] = ()
    mixed: bool = False
    tie: Tie | None = None
    has_elbo: ClassVar[bool] = True  # it trains a model with prior, posterior and likelihood

    def __post_init__(self) -> None:
        if not self.needs_estimator:
            object.__setattr__(self, "estimator", "")  # no price asks for q(z)
        elif self.estimator.startswith(BankSpec.name):
            bank = BankSpec(arithmetic.parse_argument(self.estimator, BankSpec.name, BankSpec.rows))
            object.__setattr__(self, "critics", {**self.critics, BankSpec.name: bank})

    @property
    def papers(self) -> tuple[str, ...]:
        """Keys into `PAPERS`."""
        return papers_in(self.cite)

    @property
    def needs_estimator(self) -> bool:
        """True when some price needs q(z) by an estimator."""
        return any("q(z)" in TERMS[plain_key(key)].needs for key in self.prices if plain_key(key) in TERMS)

    @property
    def part_options(self) -> str:
        """The options that decide which parts are built; prices do not."""
        return repr(sorted(self.critics.items()))

    def expand_prices(self, tree: Latent, prior: Prior | None = None) -> dict[str, Price]:
        """The prices with general terms spelled out: `tc:v` replaces `tc` at v, `dw:v` replaces `dw` below v.

        Branches below the prior's finest cut are left to dw, which is then KL(q(z_g) ‖ p(z_g)) of whole groups.

        Args:
            tree: the latent tree.
            prior: the prior; None for one that factorises over leaves.
        """
        rows: dict[str, Price] = {}
        for key, price in self.prices.items():
            term, node, _ = split_key(key)
            if TERMS[plain_key(key)].priced_per == "branch" and not node:
                for branch in tree.branches:
                    if f"{term}:{branch.name}" not in self.prices:
                        rows[f"{term}:{branch.name}"] = price
            elif TERMS[plain_key(key)].priced_per == "leaves":
                for part in _uncovered(
                    tree, node or "root", {split_key(k)[1] for k in self.prices if split_key(k)[0] == term}
                ):
                    rows[f"{term}:{part}" if part != "root" else term] = price
            else:
                rows[key] = price
        if prior is not None:
            groups = set(prior.finest_cut)
            for branch in tree.branches:
                if branch.name in groups or not prior.has_marginal(branch.name):
                    rows.pop(f"tc:{branch.name}", None)
        return rows

    def check(self, tree: Latent, prior: Prior) -> None:
        """See `checks.check_objective`."""
        checks.check_objective(self, tree, prior)

    def effective_prices(self) -> dict[str, Any]:
        """Effective prices of mi, tc between, tc within, dw. See `row_prices.effective_prices`."""
        return arithmetic.effective_prices(self.prices)

    def separate_prices(self) -> dict[str, Any]:
        """Prices in a unit of their own. See `row_prices.separate_prices`."""
        return arithmetic.separate_prices(self.prices)

    def twin_columns(self) -> set[str]:
        """The columns of the table that hold the price of a twin. See `row_prices.twin_columns`."""
        return arithmetic.twin_columns(self.prices)

    def describe_prices(self) -> str:
        """The prices on one line, for the printed table."""
        return ", ".join(as_schedule(price).describe(key) for key, price in self.prices.items())

    def needs(self) -> list[str]:
        """What the row needs besides nets and prior, in words."""
        needs = [f"estimator {self.estimator}"] if self.estimator else []
        needs += [word for kind, word in SUPERVISION_WORDS.items() if self.needs_rows(kind)]
        if self.tie is not None:
            needs.append(f"tie {self.tie.method}, shared {self.tie.describe_shared()}")
        listed = {name: spec for name, spec in self.critics.items() if getattr(spec, "listed", True)}
        return needs + [f"{critic} critic" if hasattr(spec, "lr") else critic for critic, spec in listed.items()]

    def needs_rows(self, kind: str) -> bool:
        """True when a price or the tie reads 'pairs', 'labels' or 'states' of the rows.

        Args:
            kind: 'pairs', 'labels' or 'states'.
        """
        terms = (TERMS[plain_key(key)] for key in self.prices if plain_key(key) in TERMS)
        return (kind == "pairs" and self.tie is not None) or any(kind in term.needs for term in terms)

    def select_estimator(self, critics: Mapping[str, Critic]) -> Estimator | None:
        """The estimator of q(z) of this row: a function of the batch, or the memory bank among the critics.

        Args:
            critics: the critics by name.
        """
        banks = [critic for critic in critics.values() if isinstance(critic, Bank)]
        return banks[0].mixture if banks else ESTIMATORS.get(self.estimator)

    def __call__(
        self,
        draw: Draw,
        step: int = 0,
        critics: Mapping[str, Critic] | None = None,
        expanded_prices: Mapping[str, Price] | None = None,
        extra_terms: Iterable[str] = (),
    ) -> Ledger:
        """Charge every priced term (and nothing else) for one draw; `extra_terms` names terms to enter without a price.

        Terms are averaged over the views of a pair, each with q(z) from its own rows; critics read the first view.
        """
        expanded_prices = (
            self.expand_prices(draw.tree, draw.model.prior) if expanded_prices is None else expanded_prices
        )
        given: dict[str, Any] = {}
        for critic in (critics or {}).values():
            given.update(critic(draw))
        nats: dict[str, Any] = {}
        prices: dict[str, float] = {}
        loss: Any = None
        for key in ("reconstruction", *expanded_prices, *extra_terms):
            if key in nats:
                continue
            mean = (
                given[key].mean() if key in given else _mean_of_views(draw, lambda view, key=key: value_of(view, key))
            )
            if key in expanded_prices or key == "reconstruction":
                price = as_schedule(expanded_prices.get(key, 1.0))
                cost = _charge_by_leaf(draw, key, mean, price, step) if price.per_leaf else price.charge(mean, step)
                loss = cost if loss is None else loss + cost
                prices[key] = price.rate(step)
            nats[key] = mean.detach()
        how = (
            {"kl": closed_form_kl.kl_method(type(draw.q), draw.model.prior, draw.model.by_mass)} if "kl" in nats else {}
        )
        return Ledger(nats, prices, loss, how)


def _uncovered(tree: Latent, node: str, priced: set[str]) -> list[str]:
    """The largest subtrees below a node, itself perhaps, that hold no other node with a price of its own."""
    inner = [name for name in tree.subtree_names(node) if name in priced and name != node]
    if not inner:
        return [node]
    children = [child.name for child in tree.node(node).children]  # type: ignore[union-attr]
    return [part for child in children if child not in priced for part in _uncovered(tree, child, priced)]


def _mean_of_views(draw: Draw, value: Any, *dim: int) -> Any:
    """The batch mean of a function of a draw, averaged over its views."""
    if not draw.partners:
        return value(draw).mean(*dim)
    return sum(value(view).mean(*dim) for view in draw.views) / len(draw.views)


def _charge_by_leaf(draw: Draw, key: str, mean: Any, price: Any, step: int) -> Any:
    """Charge a price leaf by leaf; the dependence between columns, which is in no leaf, is charged in addition."""
    leaves = TERMS[key].leaves
    assert leaves is not None
    each = _mean_of_views(draw, leaves, 0)
    return price.charge(each, step) + price.rate(step) * (mean - each.sum())
