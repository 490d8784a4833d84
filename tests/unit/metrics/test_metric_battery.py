"""The battery shares work, respects protocols, and gives intervals; no metric imports torch."""

import subprocess
import sys

import numpy as np
import pytest

from unbraid import metrics
from unbraid.core.errors import UnbraidError
from unbraid.metrics import METRICS, as_table
from unbraid.metrics.estimation import importances as importances_module
from unbraid.metrics.evaluation.battery import battery, count_metric_calls


@pytest.fixture(scope="module")
def codes_and_labels() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.column_stack([rng.integers(3, size=1200), rng.integers(6, size=1200)])
    return y + 0.2 * rng.normal(size=y.shape), y


def test_battery_equals_the_metrics_one_by_one(codes_and_labels):
    z, y = codes_and_labels
    scores = battery(z, y)
    assert set(scores) == {n for n, m in METRICS.items() if m.needs in ("factors", "codes")}
    for name in ("mig", "dci", "completeness", "factor_vae", "sap"):
        fast = {"protocol": "fast"} if "fast" in METRICS[name].protocols else {}
        assert scores[name].value == METRICS[name](z, y, **fast).value


def test_predictors_are_fitted_once_for_all_that_use_them(codes_and_labels, monkeypatch):
    z, y = codes_and_labels
    calls = []
    plain = importances_module.histogram_boosting
    monkeypatch.setitem(
        importances_module.PREDICTORS, "histogram_boosting", lambda *a, **k: calls.append(1) or plain(*a, **k)
    )
    battery(z, y, metrics=["dci", "completeness", "informativeness"])
    assert len(calls) == y.shape[1]


def test_protocol_goes_to_those_that_know_it(codes_and_labels):
    z, y = codes_and_labels
    scores = battery(z, y, metrics="mig,factor_vae,mcc", protocol="paper")
    assert scores["factor_vae"].settings["votes_fitted"] == 800
    assert "protocol" not in scores["mcc"].settings


def test_without_labels_only_metrics_of_codes_run(codes_and_labels):
    scores = battery(codes_and_labels[0])
    assert set(scores) == {n for n, m in METRICS.items() if m.needs == "codes"}
    with pytest.raises(UnbraidError, match="need factors"):
        battery(codes_and_labels[0], metrics=["mig"])
    with pytest.raises(UnbraidError, match="unknown metric 'mgi'"):
        battery(*codes_and_labels, metrics="mgi")
    with pytest.raises(UnbraidError, match="do not score one table"):
        battery(*codes_and_labels, metrics="udr")
    with pytest.raises(UnbraidError, match="seeds"):
        battery(*codes_and_labels, seeds=0)


def test_advance_is_told_of_each_metric(codes_and_labels):
    notes = []
    battery(*codes_and_labels, metrics=["mig", "mcc"], advance=lambda n=1, note="": notes.append(note))
    assert notes == ["mig", "mcc"]
    for how, count in (("half", 2 + 2 * 3), ("seeds", 2 + 3)):
        notes.clear()
        battery(
            *codes_and_labels,
            metrics=["mig", "dci"],
            seeds=3,
            interval=how,
            advance=lambda n=1, note="": notes.append(note),
        )
        chosen = {name: METRICS[name] for name in ("mig", "dci")}
        assert len(notes) == count == count_metric_calls(chosen, 3, how)


def test_a_ready_table_can_be_scored(codes_and_labels):
    table = as_table(*codes_and_labels, names=["a", "b"])
    assert battery(table, metrics="mig")["mig"].table["factors"] == ["a", "b"]


def test_metrics_never_import_torch():
    code = (
        "import sys, numpy as np\n"
        "from unbraid import metrics\n"
        "y = np.stack([np.arange(120) % 3, np.arange(120) // 3 % 4], 1)\n"
        "metrics.battery(y.astype(float), y)\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_exact_copies_share_their_importance():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=600)
    z = np.column_stack([y, -2.0 * y, rng.normal(size=600)])
    matrix = metrics.dci(z, y).table["matrix"]
    assert matrix[0, 0] == pytest.approx(matrix[1, 0])
    assert matrix[0, 0] > 0.45


def test_a_metric_that_cannot_run_is_skipped_with_its_reason_unless_it_was_named(codes_and_labels):
    z, y = codes_and_labels[0][::80], codes_and_labels[1][::80]  # 15 rows, fewer than bins
    scores = battery(z, y)
    assert np.isnan(scores["mig"].value)
    assert "as many rows as bins: found 15 rows" in scores["mig"].settings["skipped"]
    assert str(scores["mig"]).startswith("mig skipped: ")
    assert scores["mig"].as_dict()["value"] is None
    assert np.isfinite(scores["mcc"].value)
    with pytest.raises(UnbraidError, match="as many rows as bins"):
        battery(z, y, metrics=["mig", "mcc"])
    fewer = battery(z, y, metrics=["mig", "mcc"], bins=5)
    assert fewer["mig"].settings["bins"] == 5
    notes = []
    half = battery(
        codes_and_labels[0][:30],
        codes_and_labels[1][:30],
        metrics="mig,mcc",
        seeds=3,
        advance=lambda n=1, note="": notes.append(1),
    )
    assert half["mig"].interval is None
    assert half["mig"].settings["interval"].startswith("none: on half of the rows, there must be at least as many rows")
    assert half["mcc"].interval is not None
    assert len(notes) == count_metric_calls({n: METRICS[n] for n in ("mig", "mcc")}, 3, "half")


def test_a_function_is_sent_to_the_metrics_that_take_it(codes_and_labels):
    with pytest.raises(
        UnbraidError, match="found a function. Only these metrics take a function: factor_vae, beta_vae, irs"
    ):
        battery(lambda rows: rows, codes_and_labels[1])


def test_images_with_holes_are_a_named_error():
    with pytest.raises(UnbraidError, match="finite: found NaN or infinity in 1 of 2"):
        metrics.reconstruction(np.array([[np.nan, 0.0], [0.0, 0.0]]), np.zeros((2, 2)))
