"""Foundations of every package: errors, files, locks, tensors on disk, progress, hardware, options, shapes, papers."""
