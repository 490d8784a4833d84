"""Splits, conditions and imposed structure: parts of a data set."""
