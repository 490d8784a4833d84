"""Choice, halving and confidence on simulated codes whose answers are known."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError
from unbraid.discovery.factor_confidence import PARTLY, STABLE, UNKNOWN, UNSTABLE, factor_confidences, leaf_similarity
from unbraid.discovery.halving import SettingRecord, record_setting, select_survivors, settings_to_lower
from unbraid.discovery.leaf_kinds import has_clusters, is_ring, leaf_kinds
from unbraid.discovery.selection import Candidate, PairMean, choose_setting, mean_over_pairs, measure_agreement
from unbraid.latent import Latent

ROWS = 600


def seeds_of_one_model(mix: float, count: int, d: int = 4, seed: int = 0) -> list[Codes]:
    """Codes of several seeds: the same factors in another order and sign, each mixed with noise of share `mix`."""
    draw = np.random.default_rng(seed)
    factors = draw.normal(size=(ROWS, d))
    made = []
    for _ in range(count):
        order, sign = draw.permutation(d), draw.choice([-1, 1], size=d)
        noise = draw.normal(size=(ROWS, d))
        made.append(Codes((1 - mix) * factors[:, order] * sign + mix * noise, Latent.of(d), kl=np.ones(d)))
    return made


def test_agreement_falls_with_noise_and_has_an_interval_that_holds_the_mean():
    clean, noisy = (measure_agreement(seeds_of_one_model(mix, 4)) for mix in (0.05, 0.6))
    for variant in ("lasso", "spearman", "ratio"):
        assert getattr(clean, variant).mean > getattr(noisy, variant).mean + 0.2
        assert getattr(clean, variant).low <= getattr(clean, variant).mean <= getattr(clean, variant).high
        assert getattr(clean, variant).pairs == 6
    assert len(clean.models) == 4


def test_the_error_of_a_mean_over_pairs_counts_runs_and_not_pairs():
    """One odd run spoils all of its pairs: the jackknife sees one accident, a naive error would see several."""
    matrix = np.full((5, 5), 0.8)
    matrix[4], matrix[:, 4] = 0.2, 0.2
    pairs = matrix[np.triu_indices(5, 1)]
    naive = pairs.std(ddof=1) / math.sqrt(len(pairs))
    assert mean_over_pairs(matrix).error > 1.5 * naive
    assert math.isnan(mean_over_pairs(matrix[:2, :2]).error)


def candidate(name: str, mean: float, error: float = 0.02, complexity: float = 0.0, alive: bool = True) -> Candidate:
    return Candidate(name, complexity, PairMean(mean, error, 0, 1, 3), alive)


def test_the_simpler_of_settings_that_cannot_be_told_apart_is_taken_and_the_reason_says_so():
    choice = choose_setting([candidate("rich", 0.72, complexity=2), candidate("plain", 0.70, complexity=1)])
    assert (choice.name, choice.best, set(choice.tied)) == ("plain", "rich", {"plain", "rich"})
    assert "cannot be told apart" in choice.reason
    assert "simpler" in choice.reason


def test_a_clear_margin_wins_and_is_stated():
    choice = choose_setting([candidate("rich", 0.8, complexity=2), candidate("plain", 0.6, complexity=1)])
    assert choice.name == "rich"
    assert choice.margin == pytest.approx(0.2)
    assert "0.20 below" in choice.reason


def test_dead_settings_are_not_chosen_however_much_their_seeds_agree():
    assert choose_setting([candidate("dead", 0.99, alive=False), candidate("alive", 0.4)]).name == "alive"
    assert "every setting collapsed" in choose_setting([candidate("dead", 0.9, alive=False)]).reason
    with pytest.raises(UnbraidError, match="no setting"):
        choose_setting([])


def test_the_reason_of_the_only_setting_left_says_why_it_is_alone():
    assert "no time to compare" in choose_setting([candidate("only", 0.9)]).reason
    assert "failed, collapsed or stopped earlier" in choose_setting([candidate("only", 0.9)], stopped=True).reason


def record(name: str, udr: float = 0.5, gain: float = 0.6, active: float = 5, seeds: int = 3, steps: int = 1000):
    agreement = {
        key: {"mean": udr, "error": 0.02, "low": 0.0, "high": 1.0, "pairs": 3} for key in ("lasso", "spearman", "ratio")
    }
    return SettingRecord(
        name, steps, tuple(range(seeds)), 3 - seeds, active, -100.0, gain, agreement if seeds > 1 else {}
    )


def test_halving_keeps_the_largest_udr_of_those_alive_and_says_why_others_stop():
    records = [
        record("good", 0.6), record("better", 0.7), record("worse", 0.3), record("collapsed", 0.99, active=1),
        record("blurred", 0.9, gain=0.2), record("failed", seeds=1),
    ]  # fmt: skip
    kept, dropped = select_survivors(records, 2)
    assert kept == ["better", "good"]
    assert dropped.keys() == {"worse", "collapsed", "blurred", "failed"}
    assert "collapsed" in dropped["collapsed"]
    assert "reconstructs too badly" in dropped["blurred"]
    assert "failed" in dropped["failed"]


def test_settings_are_compared_only_if_some_must_stop():
    records = [record("clear", 0.2, gain=0.9), record("slow", 0.1, gain=0.3), record("dead", active=0)]
    kept, dropped = select_survivors(records, 2)
    assert kept == ["clear", "slow"], "a net that learns slowly may be the better one later"
    assert dropped.keys() == {"dead"}
    assert select_survivors(records, 1)[0] == ["clear"]


def test_one_place_goes_to_the_best_setting_with_another_decoder():
    records = [record("a1", 0.9), record("a2", 0.8), record("b1", 0.2), record("b2", 0.3), record("b3", gain=0.01)]
    nets = {r.name: r.name[0] for r in records}
    kept, dropped = select_survivors(records, 2, nets)
    assert kept == ["a1", "b2"]
    assert dropped["a2"] == "UDR 0.80; its place went to a setting with another decoder"
    assert dropped["b1"] == "UDR 0.20, below 2 other settings"
    assert select_survivors(records, 1, nets)[0] == ["a1"]
    assert select_survivors(records[:2], 1, nets)[0] == ["a1"]
    assert select_survivors([*records[:2], records[4]], 2, nets)[0] == ["a1", "a2"], "the other decoder collapsed"


def test_something_is_kept_even_if_everything_collapsed():
    kept, dropped = select_survivors([record("a", gain=0.01), record("b", gain=0.02)], 2)
    assert kept == ["b"]
    assert dropped.keys() == {"a"}
    assert select_survivors([record("a", seeds=0)], 1)[0] == []


def test_prices_are_lowered_only_where_too_few_settings_are_alive_and_training_was_long_enough():
    dead, alive = record("dead", active=0), record("alive")
    assert settings_to_lower([dead, alive], keep=1) == []
    assert settings_to_lower([dead, alive], keep=2) == ["dead"]
    assert settings_to_lower([record("dead", active=0, steps=100), alive], keep=2) == []


def test_a_setting_that_was_lowered_is_lowered_once_more_and_not_again_itself():
    tried = [record("dead", gain=0.01), record("dead-low", gain=0.005)]
    assert settings_to_lower(tried, keep=1) == ["dead-low"]


def test_a_model_of_one_leaf_that_uses_it_is_no_collapse():
    assert record("two", active=1).collapsed
    assert not replace(record("one", active=1), leaves=1).collapsed
    assert replace(record("none", active=0), leaves=1).collapsed


def test_a_record_survives_json_also_without_a_finished_run():
    for one in (record("a"), record_setting("failed", 800, [], 3)):
        assert SettingRecord.from_plain(json.loads(json.dumps(one.as_plain(), allow_nan=False))) == one


def test_confidence_counts_the_seeds_that_find_a_leaf():
    draw = np.random.default_rng(0)
    z = draw.normal(size=(ROWS, 3))
    others = []
    for k in range(3):  # z0 is in every seed, z1 in one of three, z2 in none
        rows = draw.normal(size=(ROWS, 3))
        rows[:, 1] = -z[:, 0] + 0.1 * rows[:, 1]
        if k == 0:
            rows[:, 2] = z[:, 1]
        others.append(Codes(rows, Latent.of(3), kl=np.ones(3)))
    found = {c.leaf: c for c in factor_confidences(Codes(z, Latent.of(3), kl=np.ones(3)), others)}
    assert [(found[f"z{i}"].found, found[f"z{i}"].status) for i in range(3)] == [
        (3, STABLE),
        (1, PARTLY),
        (0, UNSTABLE),
    ]
    assert found["z0"].low <= found["z0"].correlation <= found["z0"].high
    assert all(c.seeds == 3 for c in found.values())


def test_leaves_that_seeds_rotate_against_each_other_are_not_found():
    z = np.random.default_rng(0).normal(size=(ROWS, 2))

    def found(degrees: float) -> list[int]:
        turn = np.deg2rad(degrees)
        rotated = z @ np.array([[np.cos(turn), -np.sin(turn)], [np.sin(turn), np.cos(turn)]])
        codes = [Codes(rows, Latent.of(2), kl=np.ones(2)) for rows in (z, rotated)]
        confidences = factor_confidences(codes[0], codes[1:])
        assert all(c.divided == (c.correlation >= 0.7) - c.found for c in confidences)
        return [c.found for c in confidences]

    assert found(0) == found(10) == found(90) == [1, 1]
    assert found(40) == found(50) == found(140) == [0, 0]


def test_a_second_leaf_that_repeats_a_factor_does_not_hide_it():
    draw = np.random.default_rng(0)
    z = draw.normal(size=(ROWS, 1))
    repeated = np.concatenate([z + 0.05 * draw.normal(size=(ROWS, 1)), z + 0.8 * draw.normal(size=(ROWS, 1))], 1)
    (one,) = factor_confidences(Codes(z, Latent.of(1), kl=np.ones(1)), [Codes(repeated, Latent.of(2), kl=np.ones(2))])
    assert (one.found, one.divided, one.status) == (1, 0, STABLE)
    unclear = np.concatenate([z + 0.7 * draw.normal(size=(ROWS, 1)), z + 0.8 * draw.normal(size=(ROWS, 1))], 1)
    (one,) = factor_confidences(Codes(z, Latent.of(1), kl=np.ones(1)), [Codes(unclear, Latent.of(2), kl=np.ones(2))])
    assert (one.found, one.divided) == (0, 1)


def test_matching_is_one_to_one_and_skips_dead_leaves():
    z = np.random.default_rng(0).normal(size=(ROWS, 1))
    twice = Codes(np.concatenate([z, z + 0.01], 1), Latent.of(2), kl=np.ones(2))
    single = Codes(np.concatenate([z, z], 1), Latent.of(2), kl=np.array([1.0, 0.0]))
    assert sorted(c.found for c in factor_confidences(twice, [single])) == [0, 1]
    assert [c.leaf for c in factor_confidences(single, [twice])] == ["z0"]
    assert factor_confidences(single, [])[0].status == UNKNOWN


def test_similarity_of_discrete_leaves_ignores_the_order_of_classes():
    tree = Latent.of({"c": "onehot(3)", "z": 1})
    classes = np.arange(ROWS) % 3
    one = Codes(np.concatenate([np.eye(3)[classes], classes[:, None] * 1.0], 1), tree)
    two = Codes(np.concatenate([np.eye(3)[(classes + 1) % 3], np.ones((ROWS, 1))], 1), tree)
    assert leaf_similarity(one, 0, two, 0) == pytest.approx(1)
    assert leaf_similarity(one, 0, one, 1) == pytest.approx(1)
    assert leaf_similarity(one, 1, one, 0) == pytest.approx(1)


def test_kinds_of_leaves():
    draw = np.random.default_rng(0)
    turn = draw.uniform(-np.pi, np.pi, 3000)
    ring = np.stack([np.cos(turn), np.sin(turn)], 1) + 0.05 * draw.normal(size=(3000, 2))
    cloud = draw.normal(size=(3000, 2))
    two = np.where(draw.random(3000) < 0.4, -2, 2) + 0.4 * draw.normal(size=3000)
    assert is_ring(*ring.T)
    assert not is_ring(*cloud.T)
    hue = np.floor(draw.uniform(0, 10, 3000)) * np.pi / 5  # as in 3D Shapes: ten values, on no perfect circle
    assert is_ring(*(np.stack([1.2 * np.cos(hue), np.sin(hue)]) + 0.1 * draw.normal(size=(2, 3000))))
    assert not is_ring(np.cos(turn), np.cos(draw.permutation(turn))), "independent leaves with values at their ends"
    assert not is_ring(*draw.choice([-1.0, 1.0], size=(2, 3000))), "two binary factors"
    assert has_clusters(two)
    assert not has_clusters(cloud[:, 0])
    assert not has_clusters(turn)
    few = [(draw.uniform(size=40), draw.choice([-2.0, 2.0], 40) + 0.4 * draw.normal(size=40)) for _ in range(50)]
    assert sum(has_clusters(even) for even, _ in few) <= 3, "at most three of 50 by chance: 1% each"
    assert all(has_clusters(apart) for _, apart in few)
    codes = Codes(np.concatenate([ring, cloud[:, :1], two[:, None]], 1), Latent.of(4))
    assert leaf_kinds(codes, [0, 1, 2, 3]) == {
        "z0": "cyclic with z1", "z1": "cyclic with z0", "z2": "continuous", "z3": "clusters"
    }  # fmt: skip


def test_a_leaf_that_nobody_can_see_is_weak_and_one_of_few_steps_is_preliminary():
    from unbraid.discovery.factor_confidence import FactorConfidence
    from unbraid.discovery.measurements import RunMeasurement
    from unbraid.discovery.results import _visible_status

    def status(nats: float, gain: float = 0.6, change: float | None = 0.9, steps: int = 2000, found: int = 4) -> str:
        confidence = FactorConfidence("z0", found, 4, (0.9,) * 4, 0.9, 0.8, 1.0, nats)
        chosen = RunMeasurement("run", 0, Codes(np.zeros((2, 1)), Latent.of(1)), 1, 0.0, gain, steps)
        return _visible_status(confidence, chosen, change)

    assert status(2.0) == "stable"
    assert status(2.0, gain=0.01) == "weak", "grey pictures have no factors"
    assert status(0.3, change=0.1) == "weak", "the ends of its strip look alike"
    assert status(2.0, change=0.1) == "stable", "few pixels can be a factor"
    assert status(0.3, change=None) == "stable", "vectors"
    assert status(2.0, steps=100) == "preliminary", "seeds that agree after few steps may still change"
    assert status(2.0, steps=100, found=1) == "partly stable"
    assert status(2.0, steps=100, gain=0.01) == "weak"


def hues_cut_open(count: int, seed: int = 0) -> list[Codes]:
    """Codes of several seeds: one cyclic factor, cut open at another place by each, and one ordinary factor."""
    draw = np.random.default_rng(seed)
    hue, other = draw.uniform(size=ROWS), draw.normal(size=ROWS)
    return [
        Codes(np.stack([(hue + cut) % 1 + 0.01 * draw.normal(size=ROWS), other], 1), Latent.of(2), kl=np.ones(2))
        for cut in np.linspace(0, 1, count, endpoint=False)
    ]


def test_a_cyclic_factor_that_seeds_cut_open_elsewhere_is_found_and_marked_as_reordered():
    chosen, *others = hues_cut_open(4)
    hue, other = factor_confidences(chosen, others)
    assert (hue.found, hue.status, other.found, other.reordered) == (3, STABLE, 3, 0)
    assert hue.reordered >= 2


def test_agreement_by_ratios_prefers_cyclic_factors_over_noise_where_rank_correlations_do_not():
    cyclic, noisy = measure_agreement(hues_cut_open(4)), measure_agreement(seeds_of_one_model(0.3, 4, d=2))
    assert cyclic.ratio.mean > noisy.ratio.mean
    assert cyclic.spearman.mean < noisy.spearman.mean


def test_unrelated_and_folded_leaves_are_not_similar():
    draw = np.random.default_rng(0)
    z = draw.normal(size=(ROWS, 1))
    one = Codes(z, Latent.of(1))
    assert leaf_similarity(one, 0, Codes(np.abs(z), Latent.of(1)), 0) < 0.1  # |z| does not say which side
    unrelated = [leaf_similarity(one, 0, Codes(draw.normal(size=(ROWS, 1)), Latent.of(1)), 0) for _ in range(50)]
    assert np.mean(unrelated) < 0.1


def test_a_discovery_of_an_earlier_version_is_ranked_by_what_it_stored():
    stored = {"lasso": {"mean": 0.2}, "spearman": {"mean": 0.6}, "both": {"mean": 0.4}}
    assert SettingRecord("a", 100, (0, 1), 0, 4, -1.0, 0.5, stored).udr == 0.4
