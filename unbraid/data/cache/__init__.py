"""Cache of arrays and downloaded files, with checksums."""
