"""Training: `fit`, its loop, trainers, precision, validation, callbacks and distributed runs."""
