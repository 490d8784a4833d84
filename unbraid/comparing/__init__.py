"""Runs or codes → one table over seeds with intervals. Numbers only: no torch, no pictures."""

from unbraid.comparing.comparison import compare, ranked
from unbraid.comparing.run_index import runs_in
from unbraid.comparing.run_record import Model, read_run
from unbraid.comparing.table import Comparison, Group

__all__ = ["Comparison", "Group", "Model", "compare", "ranked", "read_run", "runs_in"]
