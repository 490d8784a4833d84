"""Runs: recipe → training → codes → audit, each stage a function from a run to a record and a file."""
