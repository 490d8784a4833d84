"""Inputs of the metrics: validation of arrays, the table of codes and labels, units, pruning."""
