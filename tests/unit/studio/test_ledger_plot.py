"""Curves of the training log: several runs, smoothing, log scale, and axes that the first steps do not set."""

from __future__ import annotations

import json

import numpy as np
import pytest

from unbraid.studio.ledger_plot import CurveOptions, curve, plot_ledgers, smoothed


def make_rows(n=200, level=50.0):
    """A ledger whose first steps are far above the rest."""
    values = level + 1e6 * np.exp(-np.arange(n)) + np.sin(np.arange(n))
    return [
        {"step": i * 10, "loss": float(v), "nats": {"reconstruction": float(v), "kl": 0.1 * i}, "prices": {"kl": 4.0}}
        for i, v in enumerate(values)
    ]


def test_the_first_steps_do_not_set_the_axis():
    low, high = plot_ledgers({"a": make_rows()})["loss"]["layout"]["yaxis"]["range"]
    assert 45 < low < 50 < high < 60
    assert "range" not in plot_ledgers({"a": make_rows()}, CurveOptions(robust=False))["loss"]["layout"]["yaxis"]


def test_steps_count_and_not_rows():
    rows = [{"step": i, "loss": 1e6, "nats": {}} for i in range(150)] + make_rows()[60:]
    assert plot_ledgers({"a": rows})["loss"]["layout"]["yaxis"]["range"][1] < 100


def test_a_log_axis_has_the_range_of_positive_values():
    axis = plot_ledgers({"a": make_rows()}, CurveOptions(log_scale=True))["loss"]["layout"]["yaxis"]
    assert axis["type"] == "log"
    assert np.log10(40) < axis["range"][0] < axis["range"][1] < np.log10(70)
    negative = [{"step": i, "loss": -1.0, "nats": {}} for i in range(50)]
    json.dumps(plot_ledgers({"a": negative}, CurveOptions(log_scale=True)), allow_nan=False)


def test_several_runs_share_each_figure():
    figures = plot_ledgers({"a": make_rows(), "b<c": make_rows(level=70)})
    assert [trace["name"] for trace in figures["kl"]["data"]] == ["a", "b&lt;c"]
    assert figures["kl"]["layout"]["title"]["text"] == "kl × 4"
    assert len({trace["line"]["color"] for trace in figures["kl"]["data"]}) == 2


def test_smoothing_draws_the_raw_curve_faintly():
    raw, smooth = plot_ledgers({"a": make_rows()}, CurveOptions(smoothing=0.9))["loss"]["data"]
    assert raw["opacity"] < 1
    assert np.std(np.diff(smooth["y"][180:])) < np.std(np.diff(raw["y"][180:]))
    assert smoothed(np.full(5, 3.0), 0.99).tolist() == pytest.approx([3.0] * 5)


def test_the_last_row_is_kept_and_damaged_values_are_left_out():
    rows = [*make_rows(1000), {"step": 10_000, "loss": float("nan"), "nats": {"kl": 5.0}}]
    steps, values = curve(rows, "kl", 400)
    assert steps[-1] == 10_000
    assert values[-1] == 5.0
    assert curve(rows, "loss", 400)[0][-1] == 9_990
    assert plot_ledgers({"a": []}) == {}
