"""Evaluation of metrics: the battery, intervals, ceilings, and the records of results."""
