"""Custom data: images, vectors, and any source that can be converted to a `Dataset`."""
