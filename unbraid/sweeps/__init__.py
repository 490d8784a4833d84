"""Sweeps: many runs from one file, on this machine or on a cluster. A plan lists the runs, workers train them."""

from unbraid.sweeps.api import sweep
from unbraid.sweeps.planning.sweep_file import Sweep

__all__ = ["Sweep", "sweep"]
