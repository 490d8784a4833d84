"""Objectives: THE TABLE of rows, the arithmetic of prices, the ledger."""

from unbraid.objectives.objective import Objective
from unbraid.objectives.rows import OBJECTIVES, build

__all__ = ["OBJECTIVES", "Objective", "build"]
