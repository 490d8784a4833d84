"""Downloads, checksums and the on-disk cache of arrays."""
