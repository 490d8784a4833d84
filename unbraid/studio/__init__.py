"""Browser app over a directory of runs: explore, compare and train. Needs the extra `studio`."""
