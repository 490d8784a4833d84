"""Renderers of synthetic images: sprite outlines, rasteriser, ray caster."""
