"""Titles, summaries and citations of runs."""
