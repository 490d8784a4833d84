"""Data sets: one file per set, each listed in `unbraid.data.DATASETS`."""
