"""The scheduler: failures are results, finished runs are not repeated, and claims of other processes are waited for."""

from __future__ import annotations

import errno
import json
import os
import queue
from dataclasses import asdict
from types import SimpleNamespace

import pytest

from unbraid.runs.recipe import Recipe
from unbraid.sweeps.display.status import leftovers, remove_leftovers, sweep_status
from unbraid.sweeps.display.summary import best_run, summary_lines
from unbraid.sweeps.engine import job_results, job_runner
from unbraid.sweeps.engine.job_claims import try_claim
from unbraid.sweeps.engine.job_results import JobResult, allowed_tries, is_final
from unbraid.sweeps.engine.scheduler import Scheduler
from unbraid.sweeps.planning.plan import Plan, build_jobs
from unbraid.sweeps.planning.scoring import Scoring

TINY = Recipe.load("decomposition_pinwheel").set("budget.steps=4", "budget.checkpoint_every=2", "budget.threads=1")
SCORE = Scoring(metrics=["active_units"], audit=32)


class InProcessPool:
    """A pool of one worker, which runs each job in this process."""

    def __init__(self):
        self.messages = queue.Queue()
        self.worker = SimpleNamespace(job=None, assign=self.assign, exit_reason=self.exit_reason)
        self.assigned: list[str] = []

    def assign(self, job, plan, max_tries):
        self.worker.job = job
        self.assigned.append(job.name)
        try:
            result = job_runner.claim_and_run(job, plan.folder, plan.score, max_tries)
            self.messages.put((self.worker, {"outcome": asdict(result) if result else None}))
        except SystemExit:  # a worker that dies
            self.messages.put((self.worker, None))

    def exit_reason(self):
        return "killed", "its process ended by SIGKILL"

    def idle_workers(self, wanted):
        return [self.worker] if wanted else []

    def poll(self, timeout):
        return self.messages.get() if self.messages.qsize() else None


def run_plan(plan: Plan) -> tuple[dict[str, JobResult], list[str]]:
    state = Scheduler(plan, InProcessPool())
    while not state.is_done:
        state.run_once()
    return state.results, state.workers.assigned


def make_plan(folder, count=3, **options) -> Plan:
    recipes = [TINY.set(f"seed={i}") for i in range(count)]
    return Plan(folder, build_jobs(folder, recipes, [f"p-s{i}" for i in range(count)]), **options)


@pytest.fixture
def fail_training(monkeypatch):
    """Make the training of one run raise, some times or always; the other runs train."""
    import unbraid.runs.fitting.training as training

    fit, left = training.fit, {}

    def failing_fit(recipe, *rest, **named):
        error, times = left.get(recipe.seed, (None, 0))
        if times:
            left[recipe.seed] = (error, times - 1)
            raise error
        return fit(recipe, *rest, **named)

    monkeypatch.setattr(training, "fit", failing_fit)
    return lambda seed, error, times=99: left.update({seed: (error, times)})


def test_every_run_is_trained_encoded_audited_and_scored_once(tmp_path):
    plan = make_plan(tmp_path, score=SCORE)
    results, assigned = run_plan(plan)
    assert all(o.done for o in results.values())
    assert len(assigned) == 3
    for name, o in results.items():
        assert {"run.json", "codes.npz", "audit.json", "scores.json", "outcome.json"} <= set(
            os.listdir(tmp_path / name)
        )
        assert (
            o.scores["active_units"]
            == json.loads((tmp_path / name / "outcome.json").read_text())["scores"]["active_units"]
        )
        assert set(o.seconds) == {"train", "encode", "audit", "score"}
    again, assigned = run_plan(make_plan(tmp_path, score=SCORE))
    assert (again, assigned) == (results, [])
    _, assigned = run_plan(make_plan(tmp_path, 4, score=SCORE))
    assert assigned == [make_plan(tmp_path, 4).jobs[3].name]  # only what is new
    assert best_run(results, SCORE).startswith("active_units ")


def test_other_scores_are_made_without_training_again(tmp_path, fail_training):
    first, _ = run_plan(make_plan(tmp_path, 1, score=SCORE))
    fail_training(0, AssertionError("it trains again"))
    other = Scoring(metrics=["active_units"], audit=16)
    results, assigned = run_plan(make_plan(tmp_path, 1, score=other))
    assert len(assigned) == 1
    [(name, after)] = results.items()
    assert after.done
    assert after.scores["elbo"] != first[name].scores["elbo"]
    assert after.seconds["train"] == first[name].seconds["train"]
    assert run_plan(make_plan(tmp_path, 1))[1] == []  # without scoring, any result is final


@pytest.mark.parametrize(
    ("error", "kind", "reason"),
    [
        ("diverging", "diverged", "no longer finite at step 2: kl broke"),
        (OSError(errno.ENOSPC, "No space left on device"), "refused", "No space left on device"),
        (RuntimeError("boom"), "crashed", "RuntimeError: boom"),
        (SystemExit(), "killed", "ended by SIGKILL"),
    ],
    ids=str,
)
def test_a_failure_is_recorded_and_the_others_go_on(tmp_path, fail_training, monkeypatch, error, kind, reason):
    from unbraid.runs.fitting.trainer import NonFiniteLossError

    fail_training(
        1, NonFiniteLossError("the loss is no longer finite at step 2: kl broke.") if error == "diverging" else error
    )
    plan = make_plan(tmp_path)
    results, assigned = run_plan(plan)
    bad = plan.jobs[1].name
    assert [name for name, o in results.items() if not o.done] == [bad]
    assert (results[bad].kind, results[bad].tries) == (kind, 1)
    assert reason in results[bad].reason
    assert job_results.read_result(tmp_path, plan.jobs[1]) == results[bad]
    assert len(assigned) == 3
    lines = "\n".join(summary_lines(plan, results))
    assert "2 of 3 runs done" in lines
    assert f"1 failed (1 {kind}):\n  {bad}  {kind}: " in lines
    assert str(tmp_path / bad / "log.txt") in lines
    # a new command: a run that diverged would diverge again, any other failure is tried again
    monkeypatch.undo()
    _, assigned = run_plan(make_plan(tmp_path))
    assert assigned == ([] if kind == "diverged" else [bad])


def test_retries_are_counted_even_when_nothing_can_be_written(tmp_path, fail_training, monkeypatch):
    fail_training(0, RuntimeError("boom"), times=2)
    results, assigned = run_plan(make_plan(tmp_path / "a", 1, retries=2))
    assert len(assigned) == 3
    [outcome] = results.values()
    assert (outcome.done, outcome.tries) == (True, 3)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    fail_training(0, OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(job_results, "write_json", full)
    results, assigned = run_plan(make_plan(tmp_path / "b", 2, retries=2))
    assert [o.tries for o in results.values() if not o.done] == [3]
    assert len(assigned) == 4
    monkeypatch.undo()
    results, assigned = run_plan(make_plan(tmp_path / "b", 2))  # space again: trained runs are not trained again
    assert all(o.done for o in results.values())


def test_a_run_claimed_elsewhere_is_waited_for_and_taken_over_when_released(tmp_path, monkeypatch):
    from unbraid.sweeps.engine import scheduler as module

    monkeypatch.setattr(module, "CLAIM_POLL_SECONDS", 0.0)
    plan = make_plan(tmp_path, 2)
    state = Scheduler(plan, InProcessPool())
    with try_claim(tmp_path, plan.jobs[0].name) as mine:
        assert mine
        for _ in range(8):
            state.run_once()
        assert list(state.claimed_elsewhere) == [plan.jobs[0].name]
        assert list(state.results) == [plan.jobs[1].name]
        assert sweep_status(plan).running == [plan.jobs[0].name]
        assert not leftovers(plan)
    while not state.is_done:
        state.run_once()
    assert all(o.done for o in state.results.values())


def test_a_run_in_training_is_waited_for(tmp_path):
    from unbraid.runs.folder.run_writer import lock_run_folder

    [job] = make_plan(tmp_path, 1).jobs
    with lock_run_folder(tmp_path / job.name):
        assert job_runner.claim_and_run(job, tmp_path, None) is None
    assert job_runner.claim_and_run(job, tmp_path, None).done


def test_what_another_command_finished_meanwhile_is_not_done_again(tmp_path, fail_training):
    plan = make_plan(tmp_path, 1)
    state = Scheduler(plan, InProcessPool())
    job_runner.claim_and_run(plan.jobs[0], tmp_path, None)
    fail_training(0, AssertionError("it trains again"))
    state.run_once()
    assert state.results[plan.jobs[0].name].done


def test_clean_removes_failed_and_unfinished_runs_only(tmp_path, fail_training):
    plan = make_plan(tmp_path, 4)
    fail_training(1, RuntimeError("boom"))
    fail_training(2, RuntimeError("boom"))
    run_plan(make_plan(tmp_path, 3))
    (tmp_path / plan.jobs[0].name / ".model.safetensors.x.part").write_bytes(b"half")
    fewer = Plan(tmp_path, plan.jobs[1:])  # without the first
    now = sweep_status(fewer)
    assert (len(now.failed), now.waiting, now.other) == (2, [plan.jobs[3].name], [plan.jobs[0].name])
    found = leftovers(fewer)
    assert {p.name for p in found} == {plan.jobs[1].name, plan.jobs[2].name, ".model.safetensors.x.part"}
    with try_claim(tmp_path, plan.jobs[2].name):
        assert len(remove_leftovers(fewer, list(found))) == 2
    assert (tmp_path / plan.jobs[2].name).is_dir()
    assert not (tmp_path / plan.jobs[1].name).exists()
    assert (tmp_path / plan.jobs[0].name / "model.safetensors").is_file()


def test_final_results_and_allowed_tries():
    failed = JobResult("failed", "killed", tries=2)
    assert allowed_tries(None, 3) == 4
    assert allowed_tries(failed, 0) == 3
    assert allowed_tries(JobResult("failed", "diverged", tries=2), 0) == 2
    assert is_final(failed, "", 2)
    assert not is_final(failed, "", 3)
    assert not is_final(JobResult("done", scored="a"), "b", 1)


def test_a_run_begun_with_other_threads_starts_anew_and_a_finished_one_stays(tmp_path):
    from unbraid.runs.run import Run

    [job] = make_plan(tmp_path, 1).jobs
    path = tmp_path / job.name
    assert job_runner.claim_and_run(job, tmp_path, None).done
    state = json.loads((path / "run.json").read_text())
    (path / "run.json").write_text(json.dumps(state | {"threads": 7}))
    assert job_runner.train_or_load(job, tmp_path, {}).state["threads"] == 7
    (path / "run.json").write_text(json.dumps(state | {"threads": 7, "status": "running", "step": 2}))
    (path / "outcome.json").unlink()
    assert job_runner.claim_and_run(job, tmp_path, None).done
    assert Run.load(path).state["threads"] == 1


def test_scores_are_of_the_requested_split_metrics_and_factors(tmp_path, fail_training):
    from unbraid.runs.evaluation.scores import Scores
    from unbraid.runs.run import Run

    [job] = make_plan(tmp_path, 1).jobs
    outcome = job_runner.claim_and_run(job, tmp_path, Scoring(split="test", metrics=["mig", "active_units"], audit=16))
    assert outcome.done, outcome.reason
    assert set(outcome.scores) == {"mig", "active_units", "elbo", "reconstruction"}
    scores, codes = Scores.load(tmp_path / job.name), Run.load(tmp_path / job.name).codes()
    assert scores.settings["split"] == codes.notes["split"] == "test"
    assert len(codes) < 400
    fail_training(0, AssertionError("it trains again"))
    refused = job_runner.claim_and_run(job, tmp_path, Scoring(leave_out=["leg"]), max_tries=9)
    assert (refused.kind, "leg" in refused.reason) == ("refused", True)
    assert set(job_runner.claim_and_run(job, tmp_path, Scoring(audit=0), max_tries=9).scores) == {
        "mig",
        "dci",
        "factor_vae",
    }
    sprites = Recipe.load("vae_sprites32").set("seed=7", "budget.steps=2", "nets.name=small32")
    [job] = build_jobs(tmp_path, [sprites], ["v"])
    outcome = job_runner.claim_and_run(job, tmp_path, Scoring(leave_out=["shape"], metrics=["mig"], audit=0, most=600))
    assert outcome.done, outcome.reason
    scores = Scores.load(tmp_path / job.name)
    assert (scores.settings["left_out"], scores.rows, "shape" in scores.factors) == (["shape"], 600, False)
