"""Sweeps on clusters: Ray and SLURM."""
