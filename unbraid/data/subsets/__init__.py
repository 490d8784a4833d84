"""Subsets of data sets: splits, conditions and imposed structure."""
