"""Sweeps on clusters: Ray tasks and SLURM job arrays."""
