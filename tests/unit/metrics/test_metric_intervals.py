"""Intervals: of one metric and of a battery, from halves, bootstrap samples and seeds."""

import numpy as np
import pytest

from unbraid import metrics
from unbraid.core.errors import UnbraidError
from unbraid.metrics import METRICS, as_table
from unbraid.metrics.evaluation.battery import battery


@pytest.fixture(scope="module")
def codes_and_labels() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.column_stack([rng.integers(3, size=900), rng.integers(6, size=900)])
    return y + 0.4 * rng.normal(size=y.shape), y


@pytest.mark.parametrize(("how", "word"), [("half", "halves"), ("bootstrap", "bootstrap"), ("seeds", "seeds")])
def test_each_kind_holds_the_score_and_is_named(codes_and_labels, how, word):
    scores = battery(*codes_and_labels, metrics=["dci", "mig"], seeds=4, interval=how)
    dci = scores["dci"]
    assert dci.interval[0] < dci.value < dci.interval[1]
    assert len(dci.table["repetitions"]) == 4
    assert f"4 {word}" in dci.settings["interval"] or word in dci.settings["interval"]
    if how == "seeds":
        assert scores["mig"].interval is None
        assert scores["mig"].settings["interval"].startswith("none: this metric does not depend on a seed")
    else:
        assert 0 < scores["mig"].interval[1] - scores["mig"].interval[0] < 0.3


def test_one_metric_has_the_interval_that_the_battery_gives_it(codes_and_labels):
    expected = battery(*codes_and_labels, metrics=["mig"], seeds=5, names=["a", "b"])["mig"]
    for way in (metrics.mig, "mig", METRICS["mig"]):
        score = metrics.interval(way, *codes_and_labels, seeds=5, protocol="fast", names=["a", "b"])
        assert (score.value, score.interval) == (expected.value, expected.interval)
    assert score.table["factors"] == ["a", "b"]
    coarse = metrics.interval("mig", *codes_and_labels, seeds=5, bins=5)
    assert coarse.settings["bins"] == 5
    assert coarse.value == metrics.mig(*codes_and_labels, bins=5).value


def test_the_interval_is_the_score_and_t_deviations(codes_and_labels):
    from scipy.stats import t

    score = metrics.interval(metrics.mcc, *codes_and_labels, seeds=6, seed=3)
    values = [metrics.mcc(as_table(*codes_and_labels).subset(rows)).value for rows in half_samples(900, range(3, 9))]
    half = t.ppf(0.975, 5) * np.std(values, ddof=1)
    assert score.interval == pytest.approx((score.value - half, min(1, score.value + half)))


def half_samples(n, seeds):
    return [np.sort(np.random.default_rng([s, 7]).permutation(n)[: n // 2]) for s in seeds]


def test_intervals_stay_within_the_range_of_the_metric():
    y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    score = metrics.interval(metrics.mig, y + 0.1 * np.random.default_rng(0).normal(size=y.shape), y, seeds=5)
    assert score.interval[1] <= 1


def test_a_function_that_encodes_can_only_be_given_other_seeds():
    y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]

    def encode(rows):
        return rows @ np.array([[1.0, 0.8], [-0.5, 1.0]])

    score = metrics.interval(metrics.beta_vae, encode, y, method="seeds", seeds=3, protocol="fast")
    assert score.interval[0] <= score.value <= score.interval[1]
    with pytest.raises(UnbraidError, match="no rows to resample"):
        metrics.interval(metrics.beta_vae, encode, y)


def test_votes_that_never_differ_keep_their_own_interval():
    y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    for how in ("seeds", "half"):
        score = metrics.interval(metrics.factor_vae, y.astype(float), y, method=how, seeds=3, protocol="fast")
        assert score.interval[0] < 1
        assert "Wilson" in score.settings["interval"]
    same = metrics.interval("sap", y.astype(float), y, method="seeds", seeds=3, protocol="fast")
    assert same.interval is None
    assert "every seed gave the same score" in same.settings["interval"]


def test_mistakes_are_named(codes_and_labels):
    with pytest.raises(UnbraidError, match="unknown interval 'jack'"):
        metrics.interval("mig", *codes_and_labels, method="jack")
    with pytest.raises(UnbraidError, match="unknown interval"):
        battery(*codes_and_labels, interval="jack")
    with pytest.raises(UnbraidError, match="from 2 to 1000"):
        metrics.interval("mig", *codes_and_labels, seeds=1)
    with pytest.raises(UnbraidError, match="one table of codes"):
        metrics.interval(metrics.udr, [codes_and_labels[0], codes_and_labels[0]])


def test_half_samples_have_the_deviation_of_the_whole():
    """Delete-half: the spread over random halves is the sampling deviation (here of MCC, found by repetition)."""
    rng = np.random.default_rng(0)

    def draw():
        y = rng.normal(size=(300, 1))
        return y + rng.normal(size=y.shape), y

    truth = np.std([metrics.mcc(*draw()).value for _ in range(200)])
    for how in ("half", "bootstrap"):
        found = [
            metrics.interval("mcc", *draw(), seeds=12, method=how).table["repetitions"].std(ddof=1) for _ in range(15)
        ]
        assert np.mean(found) == pytest.approx(truth, rel=0.3), how


def test_collapsed_codes_say_why_they_score_nothing(codes_and_labels):
    y = codes_and_labels[1]
    dead = battery(np.ones((900, 10)), y)
    for name in ("factor_vae", "mig_sup", "med", "modularity", "irs", "info_mec"):
        assert dead[name].value == 0
        assert dead[name].settings["note"] == "all 10 columns are dead: they never change", name
    assert all(s.settings["dead_columns"] == "all 10" for s in dead.values())
    small = metrics.factor_vae(1e-3 * codes_and_labels[0], y, prune="variance")
    assert small.settings["note"] == "all 2 units are left out: their deviation is below 0.05"
    noise = np.random.default_rng(1).normal(size=(900, 3))
    assert "no more than chance" in metrics.med(noise, y).settings["note"]
    assert "note" not in metrics.factor_vae(*codes_and_labels).settings
    assert as_table(np.column_stack([codes_and_labels[0], np.zeros(900)]), y).notes["dead_columns"] == ["z2"]


def test_a_factor_with_one_value_in_some_half_gives_no_interval_and_no_warning(codes_and_labels):
    rare = np.column_stack([codes_and_labels[1][:, 0], np.arange(900) == 7])
    why = "none: y1 takes a single value in some of the repetitions"
    score = metrics.interval("mig", codes_and_labels[0], rare, seeds=5)
    assert (score.interval, score.settings["interval"]) == (None, why)
    scores = battery(codes_and_labels[0], rare, metrics=["mig", "mcc", "hoyer"], seeds=3)
    assert scores["mig"].settings["interval"] == scores["mcc"].settings["interval"] == why
    assert scores["hoyer"].interval is not None


def test_groups_and_neighbours_depend_on_a_seed_and_say_so(codes_and_labels):
    z = np.column_stack([codes_and_labels[0], np.random.default_rng(0).normal(size=(900, 2))])
    score = metrics.interval("mig", z, codes_and_labels[1], method="seeds", seeds=np.int64(3), groups=[[0, 1], [2, 3]])
    assert score.interval[0] < score.value < score.interval[1]
    near = metrics.interval("mig", np.round(z), codes_and_labels[1], method="seeds", seeds=3, protocol="knn")
    assert "does not depend" not in near.settings["interval"]


def test_halves_are_blamed_for_what_they_cause(codes_and_labels):
    with pytest.raises(UnbraidError, match="on half of the rows: .* as many rows as bins: found 15 rows"):
        metrics.interval("mig", codes_and_labels[0][:30], codes_and_labels[1][:30])


def test_neighbours_and_posteriors_say_that_they_subsample():
    from unbraid.codes import Codes
    from unbraid.latent import Latent

    rng = np.random.default_rng(0)
    y = rng.integers(3, size=(10_500, 1))
    z = y + rng.normal(size=y.shape)
    assert metrics.mig(z, y, protocol="knn").settings["subsampled"] == "10,000 of 10,500 rows"
    assert "10,000 of 10,500 rows for neighbours" in metrics.info_mec(z, y, protocol="paper").settings["subsampled"]
    encoded = Codes(z[:3100], Latent.of(1), scale=np.full((3100, 1), 0.1))
    settings = metrics.mig(encoded, y[:3100], protocol="paper").settings  # samples, but every row is a component
    assert (settings["draws"], settings["components"]) == (1000, 3100)
