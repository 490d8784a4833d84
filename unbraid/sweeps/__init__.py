"""Sweeps: many runs on one machine or many."""

from unbraid.sweeps.local import sweep

__all__ = ["sweep"]
