"""The metrics, one per file; `unbraid.metrics` exports the functions and the dict `METRICS`."""
