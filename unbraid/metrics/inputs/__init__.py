"""What metrics read: validation of arrays, the table of codes and labels, units, pruning."""
