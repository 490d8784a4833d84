"""What training does to a run directory: refusals change nothing, old files are set aside, the state is never stale."""

import json
import signal
from dataclasses import replace

import pytest

from tests.toys import toy_data
from unbraid.data.dataset import Pixels
from unbraid.ground.errors import UnbraidError
from unbraid.runs.directory import BEFORE
from unbraid.runs.recipe import Recipe
from unbraid.runs.training import fit


def tiny(**budget):
    """A VAE of a few steps."""
    asked = {"steps": 6, "batch": 16, "threads": 1, **budget}
    return Recipe(data="toy", latent=3, nets="small32", objective="vae", budget=asked)


def test_a_full_disk_under_the_ledger_is_named(tmp_path):
    import resource

    limit = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (1_500, limit[1]))
        with pytest.raises(UnbraidError, match=r"cannot write .*ledger.jsonl: (File too large|No space)"):
            fit(tiny(steps=100, log_every=1, checkpoint_every=1000), tmp_path / "r", quiet=True, dataset=toy_data())
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_refused_resume_leaves_the_run_as_it_was(tmp_path):
    run = fit(tiny(), tmp_path / "r", quiet=True, dataset=toy_data())
    files = {f.name: f.read_bytes() for f in run.path.iterdir() if f.is_file()}
    for change, said in ((tiny(steps=9).set("latent=6"), "does not fit"), (tiny(steps=3), "gone further")):
        with pytest.raises(UnbraidError, match=said):
            fit(change, run.path, resume=True, force=True, quiet=True, dataset=toy_data())
        assert {f.name: f.read_bytes() for f in run.path.iterdir() if f.is_file()} == files


def test_what_was_made_of_old_weights_goes_with_them(tmp_path):
    run = fit(tiny(), tmp_path / "r", quiet=True, dataset=toy_data())
    (run.path / "codes.npz").write_bytes(b"of the old weights")
    fit(tiny().set("seed=5"), run.path, force=True, quiet=True, dataset=toy_data())
    assert not (run.path / "codes.npz").exists()
    (run.path / "audit.json").write_text("{}")
    fit(tiny(steps=8).set("seed=5"), run.path, resume=True, force=True, quiet=True, dataset=toy_data())
    assert not (run.path / "audit.json").exists()
    assert not (run.path / BEFORE).exists()


@pytest.mark.parametrize("damage", [None, b"", b"null", b"3", b"[]"])
def test_a_lost_or_damaged_state_needs_force(tmp_path, damage):
    run = fit(tiny(), tmp_path / "r", quiet=True, dataset=toy_data())
    (run.path / "run.json").unlink()
    if damage is not None:
        (run.path / "run.json").write_bytes(damage)
    with pytest.raises(UnbraidError, match=r"run.json|run state"):
        fit(tiny(), run.path, resume=True, quiet=True, dataset=toy_data())


def test_a_ledger_that_lost_lines_needs_force_and_is_not_padded(tmp_path):
    run = fit(tiny(log_every=1), tmp_path / "r", quiet=True, dataset=toy_data())
    first = (run.path / "ledger.jsonl").read_bytes().split(b"\n")[0] + b"\n"
    for left in (first, None):
        (run.path / "ledger.jsonl").unlink()
        if left is not None:
            (run.path / "ledger.jsonl").write_bytes(left)
        with pytest.raises(UnbraidError, match="lost lines"):
            fit(tiny(log_every=1), run.path, resume=True, quiet=True, dataset=toy_data())
    again = fit(tiny(log_every=1, steps=8), run.path, resume=True, quiet=True, dataset=toy_data(), force=True)
    assert [row["step"] for row in again.ledger()] == [6, 7]


def test_other_images_and_stale_threads_are_noticed(tmp_path):
    run = fit(tiny(), tmp_path / "r", quiet=True, dataset=toy_data())
    other = replace(toy_data(), images=Pixels(255 - toy_data().images.array))
    with pytest.raises(UnbraidError, match="data:"):
        fit(tiny(), run.path, resume=True, quiet=True, dataset=other)
    fit(tiny(threads=2, steps=8), run.path, resume=True, force=True, quiet=True, dataset=toy_data())
    assert json.loads((run.path / "run.json").read_text())["threads"] == 2


def test_a_broken_loss_names_the_way_back(tmp_path, monkeypatch):
    import unbraid.runs.training as module

    plain, broken = module.Trainer.step, tiny(steps=9, checkpoint_every=2)

    def breaks(self, number, also=()):
        if number == 5:
            raise module.Broken("the loss is no longer finite at step 5: kl broke.")
        return plain(self, number, also)

    monkeypatch.setattr(module.Trainer, "step", breaks)
    with pytest.raises(UnbraidError, match=r"step 5: kl broke.*last checkpoint, after step 4.*--out .*r"):
        fit(broken, tmp_path / "r", quiet=True, dataset=toy_data())
    with pytest.raises(UnbraidError, match="no checkpoint yet"):
        fit(tiny(steps=9, checkpoint_every=1000), tmp_path / "s", quiet=True, dataset=toy_data())
