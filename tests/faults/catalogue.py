"""The faults of the campaign, by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.faults import training_trials, trials
from tests.faults.trials import Trial, TrialContext

FAULTS: dict[str, Callable[[TrialContext], Trial]] = {
    "worker killed": trials.kill_worker,
    "driver killed": trials.kill_driver,
    "shard killed": trials.kill_shard,
    "disk full": trials.fill_disk,
    "rank killed": trials.kill_rank,
    "killed inside a checkpoint write": training_trials.kill_in_checkpoint_write,
    "one of two fits into one out killed": training_trials.kill_one_of_two_fits,
    "studio killed during training": training_trials.kill_studio,
    "studios started one training at once": training_trials.race_studios,
    "Ray worker killed": trials.kill_ray_worker,
    "Ray driver killed": trials.kill_driver,
    "Ray node killed": trials.kill_ray_node,
}
CHEAP = {
    "killed inside a checkpoint write": 10,
    "one of two fits into one out killed": 10,
}  # trials where others get one
