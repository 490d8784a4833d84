"""What an objective asks of tree, prior and posterior, checked before any work starts; every error names the fix."""

from __future__ import annotations

from typing import TYPE_CHECKING

from unbraid.core.errors import UnbraidError, choose, did_you_mean, expect, join_names
from unbraid.latent import Latent
from unbraid.prices import as_schedule
from unbraid.priors.base import Prior
from unbraid.terms import ESTIMATORS, TERMS, BankSpec, needing, plain_key, split_key

if TYPE_CHECKING:
    from unbraid.objectives.objective import Objective


def check_objective(objective: Objective, tree: Latent, prior: Prior) -> None:
    """Raise an error for unknown keys or nodes, an unsuitable prior or estimator, or missing marginals.

    Args:
        objective: the objective.
        tree: the latent tree.
        prior: the prior.
    """
    for key in objective.prices:
        choose(plain_key(key), TERMS, f"term in objective {objective.name!r}")
        _check_node(objective, key, tree)
        _check_price(objective, key, tree, prior)
    if objective.needs_estimator and BankSpec.name not in objective.critics:
        choose(objective.estimator, {**ESTIMATORS, BankSpec.name: None}, f"estimator of objective {objective.name!r}")
    _check_latents(objective, tree, prior)
    _check_support(objective, prior)
    _check_given(objective)
    _check_marginals(objective, tree, prior)


def _check_node(objective: Objective, key: str, tree: Latent) -> None:
    term, node, _ = split_key(key)
    if not node:
        return
    expect(
        node in tree.names,
        f"objective {objective.name!r} prices {key!r}, but the latent tree has no node {node!r}",
        allowed=tree.names,
        do=f"Rename the node in latent, or name another one in the objective's options.{did_you_mean(node, tree.names)}",
    )
    branch = TERMS[plain_key(key)].priced_per == "branch"
    expect(
        TERMS[plain_key(key)].priced_per != "" and (not branch or node in [b.name for b in tree.branches]),
        f"objective {objective.name!r} prices {key!r}",
        found=f"{term!r}, which has no price {'at a leaf' if branch else 'per node'}",
        allowed=[name for name, known in TERMS.items() if known.priced_per],
    )


def _check_price(objective: Objective, key: str, tree: Latent, prior: Prior) -> None:
    """A price charged leaf by leaf needs a term that has leaves, and a prior that knows their marginals."""
    if not as_schedule(objective.prices[key]).per_leaf:
        return
    allowed = [name for name, term in TERMS.items() if term.leaves is not None]
    expect(
        key in allowed,
        f"objective {objective.name!r} prices {key!r} leaf by leaf, but it has no value per leaf",
        allowed=allowed,
    )
    unknown = [leaf.name for leaf in tree.leaves if not prior.has_marginal(leaf.name)]
    expect(
        not unknown,
        f"objective {objective.name!r} prices {key!r} leaf by leaf, but prior {prior.name!r} has no marginal at: "
        f"{join_names(unknown)}",
        do="Use a number as the price, or prior 'gaussian'.",
    )


def _check_latents(objective: Objective, tree: Latent, prior: Prior) -> None:
    """A prior of the right kind, discrete leaves where they are asked for, and a way to train a learned prior."""
    names = {module.name for module in prior.modules() if isinstance(module, Prior)}  # a joint prior may hold it
    if objective.prior and not names & set(objective.prior):
        asked = " or ".join(map(repr, objective.prior))
        row = objective.name.replace("isa_", "beta_")
        other = f", or use the same row under its own name, {row!r}" if row != objective.name else ""
        raise UnbraidError(
            f"objective {objective.name!r} is defined with prior {asked}: found {prior.name!r}. "
            f"Set prior.name to {objective.prior[0]!r}{other}."
        )
    expect(
        not objective.mixed or not tree.all_real,
        f"objective {objective.name!r} needs a tree with discrete leaves",
        found=str(tree),
        do='Add one, such as latent = {digit = "onehot(10)", style = 10}, or use beta_vae.',
    )
    for key in objective.prices:
        needs = TERMS[plain_key(key)].needs
        expect(
            "real" not in needs or tree.all_real,
            f"objective {objective.name!r} prices {key!r}, which is for real leaves",
            found=str(tree),
        )
        expect(
            "masses" not in needs or prior.masses or tree.all_real,
            f"objective {objective.name!r} prices {key!r}, which needs the masses of discrete leaves",
            found=f"prior {prior.name!r}, which has none",
            do="Use prior 'discrete' or 'conditional' there, or price 'kl'.",
        )
    if any(p.requires_grad for p in prior.parameters()):
        moved = any("log p" in TERMS[plain_key(key)].needs for key in objective.prices)
        expect(
            moved,
            f"objective {objective.name!r} cannot train a learned prior",
            found=f"prices on {join_names(objective.prices)}",
            do="Fix the prior (learned = false), or price one of: " + join_names(needing("log p")) + ".",
        )


def _check_support(objective: Objective, prior: Prior) -> None:
    """No density of a prior that is 0 somewhere: a posterior with tails makes its logarithm infinite."""
    for key in objective.prices if prior.bounded else ():
        expect(
            "log p" not in TERMS[plain_key(key)].needs,
            f"{objective.name} prices {key!r}, which is infinite for a prior that is 0 outside its box",
            do="Use an objective that only draws from the prior ('wae', 'info_gan'), "
            "or prior 'generalised_gaussian' with a large p.",
        )


def _check_given(objective: Objective) -> None:
    """Under p(z|u) the terms of the decomposition would need q(z|u), of which a batch has few rows."""
    if not objective.needs_rows("states"):
        return
    refused = [key for key in objective.prices if {"q(z)"} & set(TERMS[plain_key(key)].needs) or key.startswith("kl:")]
    expect(
        not refused and "kl" not in objective.prices,
        f"objective {objective.name!r} prices 'kl@given', whose prior is p(z|u)",
        found=join_names(refused or ["kl"]),
        do="These terms compare with p(z) and would need q(z|u). Price 'kl@given' alone, or with critics of the codes.",
    )


def _check_marginals(objective: Objective, tree: Latent, prior: Prior) -> None:
    below = [b.name for b in tree.branches if b.name in prior.finest_cut or not prior.has_marginal(b.name)]
    whole = objective.expand_prices(tree)
    for key in whole:
        term, node, _ = split_key(key)
        if term in ("kl", "dw") and node:
            expect(
                prior.has_marginal(node),
                f"objective {objective.name!r} prices {key!r}, but prior {prior.name!r} has no marginal there",
                allowed=[name for name in tree.names if prior.has_marginal(name)],
            )
    if not any(split_key(k)[0] in ("tc", "dw") and not split_key(k)[2] for k in whole):
        return
    for name in below:
        inside = whole.get(f"tc:{name}", 0.0)
        above = [k for k in whole if split_key(k)[0] == "dw" and name in tree.subtree_names(split_key(k)[1] or "root")]
        dw = whole[above[0]] if above else 0.0
        if inside != dw:
            group = next((g for g in prior.finest_cut if name in tree.subtree_names(g)), name)
            known = [n for n in tree.names if prior.has_marginal(n)]
            raise UnbraidError(
                f"{objective.name} prices 'tc:{name}' at {inside} and 'dw' at {dw}, but prior "
                f"{prior.name} has marginals only at: {join_names(known)}. Give both the same price "
                f"(then KL(q‖p) of {group!r} is charged as a whole), use tc_q and dw_joint, or prior 'gaussian'."
            )
