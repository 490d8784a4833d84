"""Comparison of runs or codes in one table over seeds with intervals. No torch, no figures."""

from unbraid.comparing.comparison import compare, ranked
from unbraid.comparing.run_index import runs_in
from unbraid.comparing.run_record import Model, read_run
from unbraid.comparing.table import Comparison, Group

__all__ = ["Comparison", "Group", "Model", "compare", "ranked", "read_run", "runs_in"]
