"""Studies: one file per paper or question; each table and figure as code that runs."""
