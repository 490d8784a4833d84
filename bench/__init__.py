"""Benchmarks: absolute times are printed, and only ratios have limits."""
