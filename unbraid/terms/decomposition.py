"""The terms of the KL on a tree, in nats per example (positive = cost).

    E KL(q(z|x) ‖ p) = mi + Σ_branches tc + dw = mi + Σ_branches tc_q + dw_joint

`tc` and `dw` stop at the prior's finest cut: where its marginals end, dw is KL(q(z_g) ‖ p(z_g)) of the groups g.
"""

from __future__ import annotations

from typing import Any

from unbraid.core import distributed
from unbraid.core.errors import expect
from unbraid.core.shapes import Float, Tensor, tree_matrix
from unbraid.model import closed_form_kl
from unbraid.model.draw import Draw
from unbraid.model.posterior import Posterior
from unbraid.priors.base import Prior
from unbraid.priors.joint import Joint
from unbraid.terms.term import Term

Nats = Float[Tensor, "b"]


def reconstruction(draw: Draw, node: str = "") -> Nats:
    """−log p(x|z). Kingma & Welling 2014."""
    return -distributed.all_gather_rows(draw.model.likelihood.log_prob(draw.x, draw.out))


def kl(draw: Draw, node: str = "") -> Nats:
    """KL(q(z_v|x) ‖ p(z_v)): in closed form where there is one, else log q − log p at the sample. Kingma & Welling 2014.

    The root is the whole KL. A node below it is a separate term, priced in addition to `kl`.
    """
    if node and node != "root":
        at = draw.tree.index(node)
        leaves = closed_form_kl.leaf_kl(draw.model.charged(draw.q), draw.model.prior) if draw.q.independent else None
        below = [i for i, leaf in enumerate(draw.tree.leaves) if leaf.name in draw.tree.subtree_names(node)]
        return draw.log_qx[:, at] - draw.log_p[:, at] if leaves is None else leaves[:, below].sum(1)
    known = closed_form_kl.joint_kl(draw.model.charged(draw.q), draw.model.prior)
    return kl_sampled(draw) if known is None else known


def kl_leaves(draw: Draw, node: str = "") -> Float[Tensor, "b l"]:
    """KL(q(z_l|x) ‖ p(z_l)) of each leaf: in closed form where there is one, else at the sample.

    Args:
        draw: the batch with its posteriors and samples.
        node: not used.
    """
    known = closed_form_kl.leaf_kl(draw.model.charged(draw.q), draw.model.prior)
    at = list(draw.tree.leaf_nodes)
    return draw.log_qx[:, at] - draw.log_p[:, at] if known is None else known


def kl_sampled(draw: Draw, node: str = "") -> Nats:
    """log q(z|x) − log p(z) at the sample: the number that the terms of the decomposition add up to."""
    return draw.log_qx[:, 0] - draw.log_p[:, 0]


def kl_categorical(draw: Draw, node: str = "") -> Nats:
    """KL(q(z|x) ‖ p) with discrete leaves as probability masses, Σ_k π_k log π_k/p_k; real ones as in `kl`.

    The parts' KLs and what q binds between them, each part as a whole, so that columns may be correlated under q or p.
    The relaxed density and the mass differ by nats, so this definition of a discrete KL has its own name.
    """
    prior, q = draw.model.prior, draw.q
    if not isinstance(prior, Joint):
        return _with_masses(draw, prior, q, draw.z)
    total: Any = q.dependence(prior.part_names)
    for name in prior.part_names:
        z = draw.z[:, draw.tree.columns(name)]
        total = total + _with_masses(draw, prior.part(name), q.restrict(name), z)
    return total


def _with_masses(draw: Draw, part: Prior, q: Posterior, z: Tensor) -> Nats:
    """One part of a joint prior: masses for discrete leaves, else the closed form, else at the sample."""
    known = part.mass_kl(q.loc) if part.masses else closed_form_kl.joint_kl(q, part)
    if known is not None:
        return known
    return q.log_prob(z)[:, 0] - part.log_prob(z, q.temperature)[:, 0]


def mi(draw: Draw, node: str = "") -> Nats:
    """I(n; z_v): log q(z_v|x) − log q(z_v). Never above log N by a right estimator.

    Term ② of Esmaeili et al. 2018, Fig. 2; Kim & Mnih 2018, App. C; the index-code mutual information of Chen et al. 2018.
    """
    at = draw.tree.index(node or "root")
    return draw.log_qx[:, at] - draw.log_q[:, at]


def agg(draw: Draw, node: str = "") -> Nats:
    """KL(q(z) ‖ p(z)) by the estimator: log q(z) − log p(z).

    Term ④ of Esmaeili et al. 2018, Fig. 2; Kim & Mnih 2018, App. C.
    """
    return draw.log_q[:, 0] - draw.log_p[:, 0]


def tc(draw: Draw, node: str = "") -> Nats:
    """log q(z_v)/Π_c q(z_c) − log p(z_v)/Π_c p(z_c) at branch v, c its children. Esmaeili et al. 2018, Fig. 4."""
    prior = draw.model.prior
    return sum(
        (draw.log_q[:, i] - draw.log_p[:, i]) * sign
        for i, sign in _signed_nodes(draw, node)
        if prior.has_marginal(draw.tree.names[i])
    )  # type: ignore[return-value]


def tc_q(draw: Draw, node: str = "") -> Nats:
    """log q(z_v)/Π_c q(z_c) at branch v: the total correlation of q alone.

    Watanabe 1960; what Kim & Mnih 2018, Eq. 2 and Chen et al. 2018 charge. `tc` takes the prior's own from it.
    """
    return draw.log_q @ tree_matrix(draw.tree, "incidence", draw.log_q)[_branch(draw, node)]


def dw(draw: Draw, node: str = "") -> Nats:
    """Σ log q(z_l) − log p(z_l) over the prior's finest cut (the leaves, for a prior that factorises), below one node.

    The last term of Esmaeili et al. 2018, Fig. 4; the dimension-wise KL of Chen et al. 2018.
    """
    below = set(draw.tree.subtree_names(node or "root"))
    at = [draw.tree.index(name) for name in draw.model.prior.finest_cut if name in below]
    return draw.log_q[:, at].sum(1) - draw.log_p[:, at].sum(1)


def dw_joint(draw: Draw, node: str = "") -> Nats:
    """Σ_leaves log q(z_l) − log p(z): the partner of tc_q, for any prior. Stühmer et al. 2019, ISA-TCVAE."""
    return draw.log_q[:, list(draw.tree.leaf_nodes)].sum(1) - draw.log_p[:, 0]


def entropy(draw: Draw, node: str = "") -> Nats:
    """H[q(z|x)] in closed form: ½ log|2πe S(x)|. Mathieu et al. 2019, Eq. 5."""
    return draw.q.entropy()


def _branch(draw: Draw, node: str) -> int:
    node = node or "root"
    names = [branch.name for branch in draw.tree.branches]
    expect(node in names, f"there is no total correlation at {node!r}", allowed=names)
    return names.index(node)


def _signed_nodes(draw: Draw, node: str) -> list[tuple[int, float]]:
    row = draw.tree.incidence[_branch(draw, node)]
    return [(int(i), float(row[i])) for i in row.nonzero()[0]]


Q, P = "q(z)", "log p"
# fmt: off
TERMS: dict[str, Term] = {
    "reconstruction": Term(reconstruction, short_name="rec"),
    "kl": Term(kl, priced_per="node", leaves=kl_leaves, needs=(P,), estimates_kl=True),
    "kl@sample": Term(kl_sampled, needs=(P,), estimates_kl=True),
    "kl@categorical": Term(kl_categorical, needs=(P, "masses"), estimates_kl=True),
    "entropy": Term(entropy, needs=("real",)),
    "mi": Term(mi, "kl", priced_per="node", needs=(Q,), estimates_kl=True),
    "agg": Term(agg, "kl", needs=(Q, P), estimates_kl=True),
    "tc": Term(tc, "agg", priced_per="branch", needs=(Q, P), estimates_kl=True),
    "tc_q": Term(tc_q, "agg", priced_per="branch", needs=(Q,), estimates_kl=True, twin="tc"),
    "dw": Term(dw, "agg", priced_per="leaves", needs=(Q, P), estimates_kl=True),
    "dw_joint": Term(dw_joint, "agg", needs=(Q, P), estimates_kl=True, twin="dw"),
}
# fmt: on
