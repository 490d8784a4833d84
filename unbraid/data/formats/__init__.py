"""Readers of file formats: arrays, archives, image folders, labels, Parquet, HDF5, MATLAB."""
