"""The table: groups by setting over seeds, intervals, differences, best, failures, agreement; codes of other origin."""

from __future__ import annotations

import json
import tracemalloc

import numpy as np
import pytest
from scipy import stats

import unbraid
from tests.unit.comparing.run_directories import write_codes, write_run
from unbraid.codes import Codes
from unbraid.comparing import compare, loading, ranked
from unbraid.comparing.matched_reconstruction import matched_contrasts
from unbraid.comparing.setting_labels import setting_labels
from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent
from unbraid.runs.run import Run

RNG = np.random.default_rng(0)
MIG = {
    ("vae", None): RNG.normal(0.3, 0.05, 5),
    ("beta_vae", 4): RNG.normal(0.5, 0.05, 5),
    ("beta_vae", 8): RNG.normal(0.6, 0.05, 5),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Three settings of two methods over five seeds."""
    out = tmp_path_factory.mktemp("runs")
    for k, ((name, beta), values) in enumerate(MIG.items()):
        objective = {"name": name} | ({"beta": beta} if beta else {})
        for seed, mig in enumerate(values):
            nats = {
                "reconstruction": 20.0 + 4 * k + 0.1 * seed,
                "kl": 10.0,
                "kl@sample": 10.1,
                "tc_q:root": 0.5 - 0.1 * k,
            }
            write_run(
                out / f"{name}-{beta}-s{seed}", objective, seed, {"mig": (float(mig), mig - 0.01, mig + 0.01)}, nats
            )
    return out


def test_means_intervals_and_best(folder):
    table = compare(folder)
    assert [g.label for g in table.groups] == ["beta_vae β=4", "beta_vae β=8", "vae"]
    assert table.quantities == ("mig", "reconstruction", "elbo", "kl", "tc_q:root")
    for group, values in zip(table.groups, (MIG["beta_vae", 4], MIG["beta_vae", 8], MIG["vae", None]), strict=True):
        i = table.groups.index(group)
        low, high = stats.t.interval(0.95, 4, values.mean(), stats.sem(values))
        assert (table.cells.low[i, 0], table.cells.high[i, 0]) == pytest.approx((low, high))
    assert table.best("mig") == 1
    assert table.best("reconstruction") == 2
    assert table.best("kl") is None
    assert table.row_half_widths[0, 0] == pytest.approx(0.01)  # apart: the interval over seeds is far wider
    assert table.fields == ("objective.beta", "objective.name")
    assert unbraid.compare is compare


def test_differences_are_paired_by_seed_with_holm(folder):
    table = compare(folder, metrics="mig,tc_q:root", baseline="vae")
    d = table.differences
    assert d is not None
    assert table.groups[0].label == "vae"
    test = stats.ttest_rel(MIG["beta_vae", 4], MIG["vae", None])
    i = [g.label for g in table.groups].index("beta_vae β=4")
    gaps = MIG["beta_vae", 4] - MIG["vae", None]
    assert d.p[i, 0] == pytest.approx(test.pvalue)
    assert d.effect[i, 0] == pytest.approx(gaps.mean() / gaps.std(ddof=1))
    assert d.cells.low[i, 0] == pytest.approx(test.confidence_interval().low)
    assert d.tests == 4
    assert d.holm[i, 0] >= d.p[i, 0]
    assert np.isnan(d.p[0]).all()
    assert d.p[i, 1] == 0  # the same difference in every seed


def test_pairs_are_by_seed_not_by_place(tmp_path):
    for seed in (0, 1, 2):
        write_run(tmp_path / f"a{seed}", {"name": "vae"}, seed, {"mig": 0.1 * seed})
    for seed in (2, 1, 5):
        write_run(tmp_path / f"b{seed}", {"name": "beta_vae"}, seed, {"mig": 0.1 * seed + 0.3})
    d = compare(tmp_path, baseline="vae").differences
    assert d is not None
    assert d.cells.n[1, 0] == 2
    assert d.cells.mean[1, 0] == pytest.approx(0.3)


def test_failures_are_counted_and_named_and_repeats_count_once(tmp_path):
    for seed in range(3):
        write_run(tmp_path / f"ok{seed}", {"name": "vae"}, seed, {"mig": 0.3 + 0.01 * seed})
    failed = write_run(tmp_path / "bad", {"name": "vae"}, 3, {}, status="running")
    (failed / "outcome.json").write_text(json.dumps({"status": "failed", "kind": "diverged", "reason": "loss is NaN"}))
    write_run(tmp_path / "half", {"name": "vae"}, 4, {}, status="stopped")
    write_run(tmp_path / "again", {"name": "vae"}, 0, {"mig": 0.3})
    table = compare(tmp_path)
    (group,) = table.groups
    assert (len(group.models), len(group.failed), len(group.unfinished)) == (3, 1, 1)
    notes = "\n".join(table.notes)
    assert "1 failed: bad (diverged: loss is NaN)" in notes
    assert "1 not finished: half" in notes
    assert "counted once: ok0" in notes
    assert "n=3, 1 failed, 1 unfinished" in str(table)


def test_the_repeat_that_is_left_out_is_the_one_named(tmp_path):
    write_run(tmp_path / "first", {"name": "vae"}, 0, {"mig": 0.3})
    write_run(tmp_path / "second", {"name": "vae"}, 0, {"mig": 0.3, "dci": 0.5})
    write_run(tmp_path / "third", {"name": "vae"}, 1, {"mig": 0.3, "dci": 0.5})
    table = compare(tmp_path)
    (group,) = table.groups
    assert [model.name for model in group.models] == ["second", "third"]
    assert "counted once: first" in "\n".join(table.notes)


def test_scores_made_in_different_ways_are_never_one_column(tmp_path):
    write_run(tmp_path / "a", {"name": "vae"}, 0, {"mig": 0.3})
    write_run(tmp_path / "b", {"name": "vae"}, 1, {"mig": 0.4}, protocol="paper")
    table = compare(tmp_path)
    assert table.quantities == ("mig (fast)", "mig (paper)")
    assert table.cells.n.tolist() == [[1, 1]]
    assert compare(tmp_path, metrics="mig").quantities == table.quantities


def test_how_a_run_was_run_is_no_setting(tmp_path):
    write_run(tmp_path / "a", {"name": "vae"}, 0, {"mig": 0.3}, recipe={"budget": {"threads": 1}})
    write_run(tmp_path / "b", {"name": "vae"}, 1, {"mig": 0.4}, recipe={"budget": {"log_every": 7, "batch": 64}})
    write_run(tmp_path / "c", {"name": "vae"}, 1, {"mig": 0.4}, recipe={"budget": {"batch": 32}})
    table = compare(tmp_path)
    assert [(g.label, len(g.models)) for g in table.groups] == [("vae batch=32", 1), ("vae batch=64", 2)]


def test_labels_tell_settings_apart():
    nested = {"objective.name": "factor_vae", "objective.gamma": 10, "objective.critic.width": 8}
    assert setting_labels([nested, {"objective.name": "vae"}]) == ["factor_vae γ=10", "vae"]
    assert setting_labels([nested, nested | {"objective.critic.width": 16}]) == [
        "factor_vae width=8",
        "factor_vae width=16",
    ]
    same = {"objective.name": "vae", "latent": {"a": 1}}
    assert setting_labels([same, same | {"prior.name": "student_t"}]) == ["vae", "vae student_t"]
    assert setting_labels([{"objective.name": "beta_vae", "objective.beta": 4.0}]) == ["beta_vae β=4"]


def test_agreement_ranks_models_without_labels(tmp_path):
    z = np.random.default_rng(1).normal(size=(300, 3))
    turned = z @ np.linalg.qr(np.random.default_rng(2).normal(size=(3, 3)))[0]
    for seed, codes in enumerate((z, -z[:, [2, 0, 1]], turned)):
        write_codes(write_run(tmp_path / f"m{seed}", {"name": "vae"}, seed, {"mig": 0.3}), codes)
    table = compare(tmp_path)
    assert table.udr is not None
    assert 0 < table.udr[0] < 1
    assert ranked(table)[-1][0] == "m2"
    assert "choosing without labels" in str(table)
    assert compare(tmp_path, agreement=False).udr is None


def test_codes_of_other_origin(tmp_path):
    rng = np.random.default_rng(3)
    y = np.stack([rng.integers(0, 3, 400), rng.integers(0, 5, 400)], 1)
    for seed in range(3):
        for model, noise in (("sharp", 0.05), ("noisy", 2.0)):
            (tmp_path / "codes" / model).mkdir(parents=True, exist_ok=True)
            np.save(tmp_path / "codes" / model / f"{seed}.npy", y + noise * rng.normal(size=y.shape))
    (tmp_path / "labels.csv").write_text("shape,x\n" + "\n".join(f"{a},{b}" for a, b in y))
    table = compare(tmp_path / "codes", factors=tmp_path / "labels.csv", metrics="mig,mcc", baseline="noisy")
    assert [(g.label, g.seeds) for g in table.groups] == [("noisy", (0, 1, 2)), ("sharp", (0, 1, 2))]
    assert table.cells.mean[1, 0] > 0.9 > table.cells.mean[0, 0]
    assert table.udr is None  # not asked for
    named = compare(tmp_path / "codes", factors=tmp_path / "labels.csv", metrics="MIG,udr")
    assert named.quantities == ("mig",)
    assert named.udr is not None
    with pytest.raises(UnbraidError, match="together with other quantities"):
        compare(tmp_path / "codes", factors=tmp_path / "labels.csv", metrics="udr")
    each = compare(
        *(tmp_path / "codes" / m for m in ("sharp", "noisy")), factors=tmp_path / "labels.csv", metrics="mig"
    )
    assert [(g.label, g.seeds) for g in each.groups] == [("noisy", (0, 1, 2)), ("sharp", (0, 1, 2))]
    np.savez(tmp_path / "codes" / "own-7.npz", codes=y.astype(float), factors=y)
    assert [g.label for g in compare(tmp_path / "codes", factors=y, metrics="mig").groups] == ["noisy", "own", "sharp"]
    (tmp_path / "codes" / "own-7.npz").unlink()
    np.save(tmp_path / "codes" / "factors.npy", y)  # labels in the folder of the codes are found
    again = compare(tmp_path / "codes", metrics="mig")
    assert again.cells.mean[:, 0] == pytest.approx(sorted(table.cells.mean[:, 0]))


def wide_codes(folder, columns):
    """Two seeds of a sparse code of this width, its first two columns the factors."""
    rng = np.random.default_rng(4)
    y = np.stack([rng.integers(0, 3, 200), rng.integers(0, 4, 200)], 1)
    for seed in range(2):
        z = np.maximum(rng.normal(size=(200, columns)) - 1, 0).astype(np.float32)
        z[:, :2] = y + 0.1 * rng.normal(size=y.shape)
        np.save(folder / f"sae-{seed}.npy", z)
    np.save(folder / "labels.npy", y)
    return z, y


def test_wide_codes_run_the_metrics_that_can(tmp_path, monkeypatch):
    monkeypatch.setattr(loading, "MANY", 30)
    z, y = wide_codes(tmp_path, 40)
    table = compare(tmp_path)
    assert set(table.quantities) == set(loading.WIDE_METRICS)
    assert table.cells.mean[0, 0] > 0.5
    assert "sae: more than 30 columns" in "\n".join(table.notes)
    assert compare(tmp_path, metrics="mig,sap").quantities == ("mig", "sap")
    alone = compare({"sae": Codes(z, Latent.of(40))})
    assert set(alone.quantities) == {"hoyer", "active_units"}
    assert set(compare({"sae": z}, factors=y).quantities) == set(loading.WIDE_METRICS)


@pytest.mark.slow
def test_ten_thousand_columns_in_bounded_memory(tmp_path):
    """A sparse autoencoder's width: one model at a time, and nothing with a cell for each pair of columns (800 MB here)."""
    z, _ = wide_codes(tmp_path, 10_000)
    tracemalloc.start()
    try:
        table = compare(tmp_path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 20 * z.nbytes
    assert set(table.quantities) == set(loading.WIDE_METRICS)
    assert "10,000 columns" in "\n".join(table.notes)  # no UDR


def test_runs_by_record_and_by_path(folder):
    paths = sorted(p for p in folder.iterdir() if p.is_dir())
    table = compare(Run.load(paths[0]), paths[1], metrics="mig")
    assert sum(len(g.models) for g in table.groups) == 2


def test_at_equal_reconstruction(tmp_path):
    """Known truth: two curves 0.1 apart, each seed with its own offset, sampled at different reconstructions."""
    for seed in range(6):
        for k, (name, field, up) in enumerate((("beta_vae", "beta", 0.0), ("factor_vae", "gamma", 0.1))):
            for value, x in ((1, 20.0 + k), (4, 25.0), (8, 30.0 + k)):
                mig = 0.02 * x + up + 0.03 * seed
                run = tmp_path / f"{name}{value}-{seed}"
                write_run(run, {"name": name, field: value}, seed, {"mig": mig}, {"reconstruction": x + 0.2 * seed})
    write_run(tmp_path / "vae", {"name": "vae"}, 0, {"mig": 0.9}, {"reconstruction": 99.0})
    table = compare(tmp_path, metrics="mig,reconstruction", baseline="beta_vae β=1")
    found = {e.method: e for e in matched_contrasts(table, "mig")}
    e = found["factor_vae"]
    assert e.other == "beta_vae"
    assert e.contrast.mean == pytest.approx(0.1)
    assert e.contrast.n == 6
    assert e.shared_ranges[0] == pytest.approx((21.0, 30.0))
    assert found["vae"].unmatched_seeds == (0,)
    assert found["vae"].contrast.n == 0
    with pytest.raises(UnbraidError, match="unknown method"):
        matched_contrasts(table, "mig", other="aae")


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"metrics": "mgi"}, "no model has 'mgi'. Did you mean 'mig'"),
        ({"baseline": "gan"}, "baseline 'gan' matches no settings"),
        ({"baseline": "beta_vae"}, "baseline 'beta_vae' matches 2 settings. Choose one of: beta_vae β=4, beta_vae β=8"),
        ({"factors": np.zeros(3)}, "factors need codes: found runs only"),
        ({"level": 2.0}, "level must be between 0 and 1"),
    ],
)
def test_mistakes_are_named(folder, options, match):
    with pytest.raises(UnbraidError, match=match):
        compare(folder, **options)


def test_places_without_models_are_named(tmp_path):
    with pytest.raises(UnbraidError, match="does not exist"):
        compare(tmp_path / "no")
    with pytest.raises(UnbraidError, match="contains neither runs nor codes"):
        compare(tmp_path)
    with pytest.raises(UnbraidError, match="at least one source"):
        compare()
    write_run(tmp_path / "a", {"name": "vae"}, 0, {})
    with pytest.raises(UnbraidError, match="at least one model must have scores"):
        compare(tmp_path)
    write_run(tmp_path / "runs" / "b", {"name": "vae"}, 0, {}, status="running")
    with pytest.raises(UnbraidError, match="trained to its end: found 1 running"):
        compare(tmp_path / "runs")
