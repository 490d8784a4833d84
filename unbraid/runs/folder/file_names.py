"""Names of the files in a run directory."""

from __future__ import annotations

RECIPE_FILE, STATE_FILE, LEDGER_FILE, CHECKPOINT_FILE = (
    "recipe.toml",
    "run.json",
    "ledger.jsonl",
    "checkpoint.safetensors",
)
BEST_FILE = "best.safetensors"  # the weights of the best validation
DATA_FILE = "data.npz"  # where data that `unbraid.data.of` made lie, and their labels
MODEL_FILE, CODES_FILE, AUDIT_FILE, SCORES_FILE = "model.safetensors", "codes.npz", "audit.json", "scores.json"
SCORES_PICTURE, REPORT_FILE, LOCK_FILE = "scores.png", "report.html", ".lock"
OVER_TRAINING_FILES = ("over_training.json", "over_training.png")  # what snapshots were made into
OUTCOME_FILE = "outcome.json"  # what became of a run of a sweep
BACKUP_FOLDER = "before"  # where a run that is overwritten waits until the new one is done
