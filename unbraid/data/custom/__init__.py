"""Users' own data: images, vectors and anything that can be converted to a `Dataset`."""
