"""Studies without training: theory, toy models and galleries."""
