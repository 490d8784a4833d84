"""Sweeps: many runs on one machine or many. A plan, a claim for each run, a record of each outcome; engines walk the plan."""

from unbraid.sweeps.api import sweep
from unbraid.sweeps.planning.sweep_file import Sweep

__all__ = ["Sweep", "sweep"]
