"""What every room stands on: errors, files, tensors on disk, progress, the machine, options, shapes."""
