"""Evaluation of runs: encoding, scoring, the audit and summaries of leaves."""
