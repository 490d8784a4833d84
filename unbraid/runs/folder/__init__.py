"""The run directory: file names, writer, checkpoints, snapshots, backup and ledger."""
