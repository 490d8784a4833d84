"""Figures: each returns a matplotlib `Figure`; `report` gathers them in one page."""
