"""One file per metric, found by its name; `unbraid.metrics` holds the functions and the table of them."""
