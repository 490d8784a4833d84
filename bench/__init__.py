"""Benchmarks: absolute times are printed, only ratios can fail."""
