"""Studies that train nothing: theory, toys and galleries."""
