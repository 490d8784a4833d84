"""Runs or codes → one table over seeds with intervals. Numbers only: no torch, no pictures."""
