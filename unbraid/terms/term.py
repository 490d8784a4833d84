"""The record of a term, which holds all its properties, so that every list of terms follows from one dict."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class CriticRef:
    """Which critic computes a term, and how its options are read from the row; terms with the same name share a critic.

    `make` takes all options of the row by name and reads those of its critic.

    >>> from unbraid.terms import TERMS
    >>> TERMS["moments_d@mean"].critic.name
    'moments_mean'
    """

    name: str
    make: Callable[[Mapping[str, Any]], Any]


def make_spec(spec: Callable[..., Any], **fixed: Any) -> Callable[[Mapping[str, Any]], Any]:
    """Return a function that makes the spec of a critic from those options of a row that are fields of the spec.

    Args:
        spec: the record of the critic's options.
        fixed: fields that no option of the row sets.

    >>> from unbraid.terms import MomentsSpec
    >>> make_spec(MomentsSpec, of="code")({"rho": 0.1, "critic": None})
    MomentsSpec(of='code', rho=0.1, gradient='full')
    """
    names = {field.name for field in fields(spec)} - set(fixed)  # type: ignore[arg-type]
    return lambda options: spec(**{key: value for key, value in options.items() if key in names}, **fixed)


@dataclass(frozen=True)
class Term:
    """A function of a draw (and of a node), in nats per example, positive = cost; and where it stands.

    Args:
        call: the function.
        parent: the term whose price it pays too.
        priced_per: 'branch' for a sum over branches that may be priced one by one, 'leaves' for a sum over leaves that a node
            may price apart, 'node' where any one node has a term of its own.
        leaves: its value leaf by leaf "b l", if it has one.
        needs: 'q(z)' (an estimator of the aggregate posterior), 'log p' (the density of the prior, which must not be 0
            anywhere; its gradient trains a learned prior), 'masses' (of discrete leaves), 'real' (no discrete leaves); of
            the rows 'pairs' (a partner), 'labels' (labelled rows), 'states' (the value of u in p(z|u)).
        estimates_kl: it estimates that very part of the KL, whatever the means.
        twin: the term in whose column the table shows it.
        critic: what gives it instead of `call`.
        short_name: its name in a progress line.
        about: what it is, where no docstring of a function says so.

    >>> from unbraid.terms import TERMS
    >>> TERMS["tc"].parent, TERMS["tc"].priced_per, TERMS["tc"].needs
    ('agg', 'branch', ('q(z)', 'log p'))
    """

    call: Callable[..., Any] | None = None
    parent: str = ""
    priced_per: str = ""
    leaves: Callable[..., Any] | None = None
    needs: tuple[str, ...] = ()
    estimates_kl: bool = False
    twin: str = ""
    critic: CriticRef | None = None
    short_name: str = ""
    about: str = ""

    def __call__(self, draw: Any, node: str = "") -> Any:
        assert self.call is not None, "this term comes from its critic"
        return self.call(draw, node)


def split_key(key: str) -> tuple[str, str, str]:
    """`term[:node][@how]` in three parts.

    Args:
        key: the key of the term, `term[:node][@how]`.

    >>> split_key("tc:pose"), split_key("tc_q@ratio")
    (('tc', 'pose', ''), ('tc_q', '', 'ratio'))
    """
    left, _, how = key.partition("@")
    term, _, node = left.partition(":")
    return term, node, how


def plain_key(key: str) -> str:
    """The key without its node, as in `TERMS`.

    Args:
        key: the key of the term, `term[:node][@how]`.

    >>> plain_key("tc:pose"), plain_key("tc_q@ratio")
    ('tc', 'tc_q@ratio')
    """
    term, _, how = split_key(key)
    return f"{term}@{how}" if how else term
