"""Displaying a sweep: live display, status, summary and table."""
