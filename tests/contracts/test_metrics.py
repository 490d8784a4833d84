"""Every metric in METRICS has the properties it declares; a new entry is tested without edits here."""

import json
from typing import get_args, get_type_hints

import numpy as np
import pytest

from unbraid import metrics
from unbraid.core.errors import UnbraidError
from unbraid.data.factors import Factors
from unbraid.metrics import METRICS, Score, as_table

FACTORS = Factors.of({"shape": 3, "scale": 4, "x": 8, "y": 8})
SCORED_METRICS = sorted(n for n, m in METRICS.items() if m.needs in ("factors", "codes"))
FACTOR_METRICS = sorted(n for n, m in METRICS.items() if m.needs == "factors")
POSTERIOR_METRICS = sorted(n for n, m in METRICS.items() if m.needs == "posteriors")
N = 1200


def random_labels(seed: int = 0, n: int = N) -> np.ndarray:
    return FACTORS.labels(np.random.default_rng(seed).integers(FACTORS.count, size=n))


def standardise(y: np.ndarray) -> np.ndarray:
    return (y - y.mean(0)) / y.std(0)


def mixed_codes(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Codes that hold the factors with noise, some entanglement, and a column of noise."""
    rng = np.random.default_rng(seed)
    y = random_labels(seed)
    z = standardise(y) + 0.3 * rng.normal(size=y.shape)
    z[:, 0] += 0.4 * z[:, 1]
    return np.column_stack([z, rng.normal(size=N)]), y


def compute(name: str, z, y, **settings) -> Score:
    fast = {"protocol": "fast"} if "fast" in METRICS[name].protocols else {}
    return METRICS[name](z, y, **(fast | settings))


@pytest.mark.parametrize("name", SCORED_METRICS)
def test_score_is_a_finite_number_in_its_range_and_json_safe(name):
    z, y = mixed_codes()
    score = compute(name, z, y)
    low, high = METRICS[name].span
    assert isinstance(score, Score)
    assert score.name == name
    assert low <= score.value <= high
    assert score.cite
    stored = json.loads(json.dumps(score.as_dict(), allow_nan=False))
    assert stored["value"] == score.value
    if score.interval is not None:
        assert score.interval[0] <= score.value <= score.interval[1]


@pytest.mark.parametrize("name", [n for n in FACTOR_METRICS if METRICS[n].chance is not None])
def test_random_codes_score_at_chance(name):
    metric, y = METRICS[name], random_labels()
    chance = metric.chance_level(y.shape[1])
    values = [compute(name, np.random.default_rng(s).normal(size=(N, 6)), y, seed=s).value for s in range(3)]
    assert np.mean(values) == pytest.approx(chance, abs=metric.noise)


@pytest.mark.parametrize("name", FACTOR_METRICS)
def test_constant_codes_never_beat_noisy_ones(name):
    z, y = mixed_codes()
    constant = compute(name, np.ones((N, 5)), y).value
    if not METRICS[name].rewards_constants:
        assert constant <= compute(name, z, y).value
    chance = METRICS[name].chance_level(y.shape[1])
    if chance is not None:
        assert constant <= chance + METRICS[name].noise


@pytest.mark.parametrize("name", SCORED_METRICS)
def test_order_of_columns_does_not_matter(name):
    z, y = mixed_codes()
    order = np.random.default_rng(1).permutation(z.shape[1])
    a, b = compute(name, z, y).value, compute(name, z[:, order], y).value
    assert a == pytest.approx(b, abs=METRICS[name].order_tolerance)


@pytest.mark.parametrize("name", SCORED_METRICS)
def test_order_of_factors_does_not_matter(name):
    z, y = mixed_codes()
    tolerance = 0.03 if METRICS[name].seeded else 1e-9
    assert compute(name, z, y).value == pytest.approx(compute(name, z, y[:, ::-1]).value, abs=tolerance)


@pytest.mark.parametrize("name", SCORED_METRICS)
def test_same_seed_same_score(name):
    z, y = mixed_codes()
    assert compute(name, z, y, seed=3).value == compute(name, z, y, seed=3).value


@pytest.mark.parametrize("name", sorted(n for n in SCORED_METRICS if METRICS[n].scale_invariant))
def test_rescaling_columns_changes_nothing_where_claimed(name):
    z, y = mixed_codes()
    scale = np.array([0.01, 3.0, 50.0, 1.0, 0.2])
    value, shift = compute(name, z, y).value, 7 * METRICS[name].shift_invariant
    assert compute(name, z * scale + shift, y).value == pytest.approx(value, abs=1e-3)
    if not METRICS[name].shift_invariant:
        assert compute(name, z + 7, y).value != pytest.approx(value, abs=0.01)


def test_hoyer_of_scaled_codes_is_the_same_to_rounding():
    z, _ = mixed_codes()
    assert metrics.hoyer(z * np.array([0.01, 3, 50, 1, 0.2])).value == pytest.approx(metrics.hoyer(z).value, abs=1e-9)


@pytest.mark.parametrize("name", SCORED_METRICS)
def test_dead_columns_never_win(name):
    z, y = mixed_codes()
    dead = np.column_stack([np.full(N, 3.0), z, np.zeros(N)])
    a, b = compute(name, z, y), compute(name, dead, y)
    assert b.value == pytest.approx(a.value, abs=METRICS[name].dead_tolerance)
    if "matrix" in b.table:
        matrix = np.asarray(b.table["matrix"])
        assert not set(matrix.argmax(0)) & {0, len(matrix) - 1}


@pytest.mark.parametrize("name", FACTOR_METRICS)
def test_missing_labels_strings_and_one_valued_factors(name):
    z, y = mixed_codes()
    full = compute(name, z, y).value
    holes = y.astype(float)
    holes[np.random.default_rng(2).random(y.shape) < 0.1] = np.nan
    holed = compute(name, z, holes)
    assert abs(holed.value - full) < 0.12
    words = np.array(["square", "ellipse", "heart"])[y[:, 0]]
    mixture = np.column_stack([words, y[:, 1:].astype(str), np.full(N, "same")])
    score = compute(name, z, mixture, kinds=["class", "ordinal", "ordinal", "ordinal", "class"])
    assert np.isfinite(score.value)
    assert as_table(z, mixture).notes["dropped_factors"] == ["y4"]


@pytest.mark.parametrize("name", SCORED_METRICS)
def test_groups_and_discrete_leaves_are_accepted(name):
    from unbraid.codes import Codes
    from unbraid.latent import Latent, onehot

    z, y = mixed_codes()
    grouped = compute(name, z, y, groups=[[0, 1], [2], [3, 4]])
    assert np.isfinite(grouped.value)
    if "units" in grouped.table:
        assert len(grouped.table["units"]) == 3
    tree = Latent.of({"shape": onehot(3), "rest": 3})
    codes = Codes(np.column_stack([np.eye(3)[y[:, 0]], z[:, 1:4]]), tree, values=y, factors=FACTORS)
    assert np.isfinite(compute(name, codes, None).value)


@pytest.mark.parametrize("name", FACTOR_METRICS)
def test_continuous_factors_are_accepted(name):
    rng = np.random.default_rng(5)
    y = rng.uniform(size=(N, 3))
    score = compute(name, y + 0.02 * rng.normal(size=y.shape), y)
    low, high = METRICS[name].span
    assert low <= score.value <= high


@pytest.mark.parametrize("name", sorted(n for n in SCORED_METRICS if METRICS[n].protocols))
def test_unknown_protocol_is_named(name):
    z, y = mixed_codes()
    with pytest.raises(UnbraidError, match="protocol"):
        METRICS[name](z, y, protocol="fsat")


@pytest.mark.parametrize("name", sorted(n for n, m in METRICS.items() if m.ceiling))
def test_ceiling_is_declared_of_a_known_kind(name):
    known = metrics.ceilings(np.arange(10) % 5, np.arange(10))
    assert {METRICS[name].ceiling_kind(p) for p in ("", *METRICS[name].protocols)} <= set(known)


@pytest.mark.parametrize("name", POSTERIOR_METRICS)
def test_metrics_of_posteriors_have_their_declared_properties(name):
    from unbraid.codes import Codes
    from unbraid.latent import Latent

    z, _ = mixed_codes()
    apart, joined = np.random.default_rng(0).normal(size=(N, 2)), np.repeat(z[:, :1], 2, 1)
    low, high = METRICS[name].span

    def of(means, scale=0.5, **settings):
        return METRICS[name](Codes(means, Latent.of(means.shape[1]), np.full(means.shape, scale)), **settings)

    score = of(z)
    assert low <= score.interval[0] <= score.value <= score.interval[1] <= high
    assert score.cite
    assert json.loads(json.dumps(score.as_dict(), allow_nan=False))["value"] == score.value
    assert of(z, seed=3).value == of(z, seed=3).value
    assert of(z[:, ::-1]).value == pytest.approx(score.value, abs=0.1)
    assert of(np.ones((N, 3))).value == pytest.approx(0, abs=1e-9)
    assert of(apart).value < 0.1 < 0.3 < of(joined).value
    assert of(joined, groups=[[0, 1]]).value == pytest.approx(0, abs=1e-9)
    with pytest.raises(UnbraidError, match="scales"):
        METRICS[name](z)


@pytest.mark.parametrize("name", sorted(n for n, m in METRICS.items() if m.memory and n in SCORED_METRICS))
def test_codes_too_wide_for_a_metric_are_refused_with_what_they_would_take(name):
    n, d = 10_000, 100_000
    with pytest.raises(UnbraidError, match=r"100,000 columns, about [\d.]+ GB; allowed: 2 GB"):
        METRICS[name](np.broadcast_to(np.float32(1), (n, d)), np.arange(n) % 4)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(n for n in SCORED_METRICS if not METRICS[n].memory))
def test_wide_codes_take_no_matrix_of_columns_by_columns(name):
    """Less than one such matrix in float32; or, where points × columns are kept (beta_vae), memory in step with the columns."""
    peak = peak_bytes(name, 6000)
    assert peak < 4 * 6000 * 6000 or peak < 2.5 * peak_bytes(name, 3000), f"{peak / 1e6:.0f} MB"


def peak_bytes(name, d, n=300):
    """Bytes at most while a metric scores codes of d columns, most of them 0 in most rows."""
    import tracemalloc

    rng = np.random.default_rng(0)
    y = random_labels(n=n)
    z = np.maximum(rng.standard_normal((n, d), dtype=np.float32) - 1, 0)
    z[:, :4] += y
    tracemalloc.start()
    score = compute(name, z, y)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert np.isfinite(score.value)
    return peak


def test_signatures_list_the_protocols():
    for metric in METRICS.values():
        if metric.protocols:
            assert set(metric.protocols) <= set(get_args(get_type_hints(metric.call)["protocol"])), metric.call
