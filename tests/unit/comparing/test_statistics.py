"""Intervals, paired tests, Holm, power and rank correlation: known samples, scipy, and coverage by simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from unbraid.comparing import statistics as s
from unbraid.core.errors import UnbraidError

# Student's own sample (1908, Biometrika 6): extra hours of sleep of ten patients under two drugs
FIRST = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0]
SECOND = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4]


def test_students_sleep_data():
    """Mean difference 1.58, t = 4.06 on 9 degrees, p = .0028, interval .70 to 2.46: in every textbook."""
    c = s.one_sample_contrast(s.paired_differences(dict(enumerate(SECOND)), dict(enumerate(FIRST))))
    assert (c.n, c.n_positive) == (10, 9)
    assert c.mean == pytest.approx(1.58)
    assert c.mean / c.standard_error == pytest.approx(4.0621, abs=1e-4)
    assert c.p == pytest.approx(0.00283, abs=1e-5)
    assert (c.low, c.high) == pytest.approx((0.7001, 2.4599), abs=1e-4)
    assert c.effect == pytest.approx(1.58 / 1.2299, abs=1e-3)


@pytest.mark.parametrize("n", [2, 3, 5, 20])
def test_against_scipy(n):
    rng = np.random.default_rng(n)
    x, y = rng.normal(1, 2, n), rng.normal(0.5, 1, n)
    e = s.t_interval(x)
    known = stats.t.interval(0.95, n - 1, x.mean(), stats.sem(x))
    assert (e.low, e.high) == pytest.approx(known, rel=1e-12)
    differences = s.paired_differences(dict(enumerate(x)), dict(enumerate(y)))
    c, test = s.one_sample_contrast(differences, 0.9), stats.ttest_rel(x, y)
    assert c.p == pytest.approx(test.pvalue, rel=1e-10)
    assert (c.low, c.high) == pytest.approx(tuple(test.confidence_interval(0.9)), rel=1e-10)


def test_few_or_equal_values_say_what_they_know():
    assert s.t_interval([]).n == 0
    assert np.isnan(s.t_interval([]).mean)
    lone = s.t_interval([0.5, np.nan])
    assert (lone.mean, lone.n) == (0.5, 1)
    assert np.isnan(lone.low)
    alike = s.one_sample_contrast([0.1 + 0.2, 0.3, 0.3])
    assert (alike.low, alike.p) == (pytest.approx(0.3), 0.0)
    assert np.isnan(alike.effect)
    assert s.one_sample_contrast([0.0, 0.0]).p == 1.0
    assert np.isnan(s.one_sample_contrast([0.4]).p)


def test_pairs_are_of_shared_seeds_in_any_order():
    c = s.one_sample_contrast(s.paired_differences({3: 1.0, 1: 2.0, 7: 9.0}, {1: 1.0, 3: 0.5, 8: 0.0}))
    assert c.n == 2
    assert c.mean == pytest.approx(0.75)


def test_holm_by_hand_and_with_gaps():
    # Holm 1979 by hand: .005·4, .01·3, then the larger of .03·2 and what came before, .04·1 lifted to .06
    assert s.holm_adjust([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    gaps = s.holm_adjust([0.02, np.nan, 0.01])
    assert gaps[[0, 2]] == pytest.approx([0.02, 0.02])
    assert np.isnan(gaps[1])
    assert s.holm_adjust([0.9, 0.8]).max() == 1.0
    assert len(s.holm_adjust([])) == 0


def test_levels_agree_with_holm():
    """An interval at the Holm level leaves out 0 exactly when the adjusted p is below 5%."""
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(200):
        effects = [rng.normal(rng.choice([0, 0.8, 1.5]), 1, 8) for _ in range(4)]
        p = [s.one_sample_contrast(e, draws=1).p for e in effects]
        for e, level, adjusted in zip(effects, s.holm_levels(p), s.holm_adjust(p), strict=True):
            found = s.t_interval(e, level)
            assert (found.low > 0 or found.high < 0) == (adjusted < 0.05)
            seen.add(bool(adjusted < 0.05))
    assert seen == {True, False}


def test_power_and_seeds_against_published_values():
    # Cohen 1988, Table 2.3.5 for one sample: d = .5 needs 34 pairs for 80% at two-sided .05, d = .8 needs 15, d = .2 needs 199
    assert [s.seeds_needed(d, 1.0) for d in (0.2, 0.5, 0.8)] == [199, 34, 15]
    for n, d in ((2, 1.0), (5, 0.5), (12, 1.0), (40, 0.1)):
        t, shift = s.t_quantile(0.95, n - 1), d * n**0.5
        assert s.power(d, n) == pytest.approx(stats.nct.sf(t, n - 1, shift) + stats.nct.cdf(-t, n - 1, shift), abs=1e-5)
    assert s.power(3.0, 400) == pytest.approx(1)  # where scipy's noncentral t has nothing to say
    for n in (3, 5, 12, 40):
        gap = s.smallest_gap(0.08, n)
        assert s.power(gap / 0.08, n) == pytest.approx(0.8, abs=1e-6)
    assert s.seeds_needed(1e-5, 1.0) is None
    assert s.power(0.0295, s.seeds_needed(0.0295, 1.0)) == pytest.approx(
        0.8, abs=1e-3
    )  # about 9,000 pairs are listed too
    assert s.seeds_needed(0.5, 0.0) == 2
    assert np.isnan(s.smallest_gap(0.1, 1))


def test_power_by_simulation():
    rng = np.random.default_rng(1)
    x = rng.normal(0.9, 1, (4000, 10))
    t = x.mean(1) / (x.std(1, ddof=1) / 10**0.5)
    seen = (np.abs(t) > s.t_quantile(0.95, 9)).mean()
    assert seen == pytest.approx(s.power(0.9, 10), abs=4 * (0.25 / 4000) ** 0.5)


def test_seeds_for_nothing_by_simulation():
    """With the recommended number of pairs, about 80% of intervals lie inside ±margin; with half of them, fewer."""
    n = s.seeds_for_equivalence(0.01, 0.05, 0.1)
    assert n is not None
    rng = np.random.default_rng(2)
    share = {}
    for k in (n // 2, n):
        x = rng.normal(0.01, 0.1, (2000, k))
        half = s.t_quantile(0.95, k - 1) * x.std(1, ddof=1) / k**0.5
        share[k] = (np.abs(x.mean(1)) + half < 0.05).mean()
    assert share[n] == pytest.approx(0.8, abs=0.04)
    assert share[n // 2] < 0.5
    assert s.seeds_for_equivalence(0.06, 0.05, 0.1) is None


@pytest.mark.parametrize("n", [3, 5, 12])
def test_coverage(n):
    """The t interval covers the truth 95 times in 100; the percentile bootstrap falls short at few seeds."""
    rng = np.random.default_rng(n)
    covered = np.array([(e := s.t_interval(rng.normal(0.3, 0.1, n))).low <= 0.3 <= e.high for _ in range(4000)])
    assert covered.mean() == pytest.approx(0.95, abs=4 * (0.95 * 0.05 / 4000) ** 0.5)
    if n == 5:
        ends = [s.bootstrap_interval(rng.normal(0, 1, n), draws=400) for _ in range(600)]
        assert np.mean([low <= 0 <= high for low, high in ends]) < 0.91


def test_rank_correlations_against_scipy_with_gaps():
    rng = np.random.default_rng(3)
    x = rng.normal(size=(30, 3)) @ rng.normal(size=(3, 3))
    x[4, 1] = np.nan
    for how, call in (("spearman", stats.spearmanr), ("kendall", stats.kendalltau)):
        found = s.rank_correlation(x, how)
        rows = np.isfinite(x[:, 1])
        assert found[0, 1] == pytest.approx(call(x[rows, 0], x[rows, 1]).statistic)
        assert found[0, 2] == pytest.approx(call(x[:, 0], x[:, 2]).statistic)
        assert np.allclose(found, found.T)
    flat = s.rank_correlation(np.c_[np.ones(5), np.arange(5.0)])
    assert np.isnan(flat[0, 1])
    with pytest.raises(UnbraidError, match="rank correlation"):
        s.rank_correlation(x, "pearson")
