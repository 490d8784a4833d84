"""Discovery: from pictures without labels to factors with a confidence, a chosen model and pages to look at.

Public names are imported on first use, so that importing the package brings no torch.

>>> from unbraid.discovery import Discovery
>>> Discovery.__name__
'Discovery'
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unbraid.discovery.discovery import Discovery, discover
    from unbraid.discovery.new_pictures import transform

__all__ = ["Discovery", "discover", "transform"]

_MODULE_OF = {"Discovery": "discovery", "discover": "discovery", "transform": "new_pictures"}


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'unbraid.discovery' has no attribute {name!r}")
    return getattr(import_module(f"unbraid.discovery.{_MODULE_OF[name]}"), name)
