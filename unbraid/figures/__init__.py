"""Figures: functions that return a matplotlib `Figure`, and `report`, which combines them in one HTML page."""
