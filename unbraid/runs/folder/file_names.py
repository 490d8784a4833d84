"""Names of the files in a run directory."""

from __future__ import annotations

RECIPE_FILE, STATE_FILE, LEDGER_FILE, CHECKPOINT_FILE = (
    "recipe.toml",
    "run.json",
    "ledger.jsonl",
    "checkpoint.safetensors",
)
BEST_FILE = "best.safetensors"  # the weights of the best validation
DATA_FILE = "data.npz"  # the location of data made by `unbraid.data.of`, and their labels
ROWS_FILE = "data.npy"  # the data that an estimator was fitted on
MODEL_FILE, CODES_FILE, AUDIT_FILE, SCORES_FILE = "model.safetensors", "codes.npz", "audit.json", "scores.json"
SCORES_PICTURE, REPORT_FILE, LOCK_FILE = "scores.png", "report.html", ".lock"
OVER_TRAINING_FILES = ("over_training.json", "over_training.png")  # the scores of snapshots
OUTCOME_FILE = "outcome.json"  # the result of a run in a sweep
BACKUP_FOLDER = "before"  # the backup of a run until the one that replaces it is finished
