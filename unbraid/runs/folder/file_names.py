"""Names of the files in a run directory."""

from __future__ import annotations

RECIPE_FILE, STATE_FILE, LEDGER_FILE = "recipe.toml", "run.json", "ledger.jsonl"
CHECKPOINT_FILE = "checkpoint.safetensors"
BEST_FILE = "best.safetensors"  # the weights of the best validation
DATA_FILE = "data.npz"  # the location of data made by `unbraid.data.of`, and their labels
# while an estimator is fitted: says that data.npy is its own, if it is killed before recipe.toml
ROWS_MARK = ".data.npy.new"
ROWS_FILE = "data.npy"  # the data that an estimator was fitted on
LABELS_FILE = "labels.npy"  # the labels that an estimator was fitted on
PAIRS_FILE = "pairs.npy"  # the pairs of rows that an estimator was fitted on
HAND_LABELS_FILE = "labels.csv"  # labels made by hand in the studio
MODEL_FILE, CODES_FILE, AUDIT_FILE, SCORES_FILE = "model.safetensors", "codes.npz", "audit.json", "scores.json"
SCORES_PICTURE, REPORT_FILE, LOCK_FILE = "scores.png", "report.html", ".lock"
OVER_TRAINING_FILES = ("over_training.json", "over_training.png")  # the scores of snapshots
OUTCOME_FILE = "outcome.json"  # the result of a run in a sweep
BACKUP_FOLDER = "before"  # the backup of a run until the one that replaces it is finished
