"""Validation: every form of codes and labels, and every kind of bad input."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unbraid import metrics
from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError
from unbraid.data.factors import Factors
from unbraid.latent import Latent, onehot
from unbraid.metrics import METRICS, as_table
from unbraid.metrics.inputs.label_columns import encode_column


def random_codes(n: int = 60, d: int = 3) -> np.ndarray:
    return np.random.default_rng(0).normal(size=(n, d))


def test_labels_of_every_type():
    assert encode_column(np.array([-1, 5, -1, 7]), "y").index.tolist() == [
        0,
        1,
        0,
        2,
    ]  # negative classes are ordinary values
    assert encode_column(np.array([True, False]), "y").kind == "ordinal"
    assert encode_column(np.array([0.1, np.nan, 0.1]), "y").index.tolist() == [0, -1, 0]
    assert encode_column(np.array(["1", "2", ""]), "y").kind == "ordinal"
    assert encode_column(np.array(["1", "two", None], dtype=object), "y").kind == "class"
    many = encode_column(np.linspace(0, 1, 500), "y")
    assert many.kind == "continuous"
    assert len(many.levels) == 20
    assert encode_column(np.linspace(0, 1, 500), "y", kind="ordinal").kind == "ordinal"


def test_groups_by_name_by_column_and_by_tree():
    tree = Latent.of({"pose": {"x": 1, "y": 1}, "shape": onehot(3)})
    table = as_table(Codes(random_codes(d=5), tree, kl=np.array([1.0, 2.0, 3.0])), np.arange(60) % 4)
    assert table.unit_names == ("pose.x", "pose.y", "shape")
    assert table.kl.tolist() == [1, 2, 3]
    top = as_table(Codes(random_codes(d=5), tree, kl=np.array([1.0, 2.0, 3.0])), np.arange(60) % 4, groups="top")
    assert top.unit_names == ("pose", "shape")
    assert top.kl.tolist() == [3, 3]
    assert as_table(random_codes(d=5), np.arange(60) % 4, groups=tree).unit_names == ("pose.x", "pose.y", "shape")
    some = as_table(random_codes(), np.arange(60) % 4, groups={"a": [0, 2]})
    assert (some.units[0].columns, some.source_columns, some.unit_names) == ((0, 1), (0, 2), ("a",))


@pytest.mark.parametrize(
    ("z", "y", "options", "message"),
    [
        (random_codes(), np.zeros(59), {}, "same number of rows"),
        (np.full((60, 2), np.nan), np.arange(60), {}, "finite"),
        (np.zeros((2, 2, 2)), np.arange(2), {}, "table"),
        (np.zeros((1, 2)), [0], {}, "at least 2 rows"),
        (np.zeros((60, 0)), np.arange(60), {}, "1 column"),
        (np.array([["a", "b"]] * 60), np.arange(60), {}, "numbers"),
        (random_codes() + 1j, np.arange(60), {}, "must be real"),
        (random_codes(), np.ones(60), {}, "no factor takes two values"),
        (random_codes(), np.full(60, np.nan), {}, "no factor takes two values"),
        (random_codes(), np.full(60, np.inf), {}, "finite"),
        (random_codes(), [[1, 2], [3]], {}, "table"),
        (random_codes(), None, {}, "needs factors"),
        (random_codes(), np.arange(60), {"groups": [[0], [0, 1]]}, "share columns"),
        (random_codes(), np.arange(60), {"groups": [[7]]}, "columns of the codes"),
        (random_codes(), np.arange(60), {"groups": []}, "at least one group"),
        (random_codes(), np.arange(60), {"groups": ["pose"]}, "no node"),
        (random_codes(), np.arange(60), {"names": ["a", "b"]}, "one name per factor"),
        (random_codes(), np.arange(60), {"kinds": ["colour"]}, "one kind per factor"),
        (random_codes(), np.arange(60), {"groups": Latent.of(4)}, "one column per column"),
    ],
)
def test_bad_input_is_a_named_error(z, y, options, message):
    with pytest.raises(UnbraidError, match=message):
        as_table(z, y, **options)


def test_fewer_rows_than_bins_and_bins_out_of_range():
    with pytest.raises(UnbraidError, match="as many rows as bins"):
        metrics.mig(random_codes(10), np.arange(10) % 2)
    with pytest.raises(UnbraidError, match="from 2 to 256"):
        metrics.mig(random_codes(), np.arange(60) % 2, bins=1)


def test_pruning_by_kl_needs_kl_and_uses_it():
    y = np.stack([np.arange(600) % 2, np.arange(600) // 2 % 3], 1)
    z = np.column_stack([y, np.random.default_rng(0).normal(size=600)]).astype(float)
    with pytest.raises(UnbraidError, match="KL of each leaf"):
        metrics.factor_vae(z, y, prune="kl")
    encoded = Codes(z, Latent.of(3), kl=np.array([1.0, 1.0, 0.001]))
    score = metrics.factor_vae(encoded, y)
    assert score.settings["prune"] == "kl"
    assert score.settings["live_units"] == 2
    assert score.table["votes"][2].sum() == 0
    assert metrics.factor_vae(encoded, y, least=1e-6).settings["live_units"] == 3
    assert metrics.factor_vae(z * 1e-3, y, prune="variance").value == 0
    assert metrics.factor_vae(z * 1e-3, y, prune="none").value == 1


def test_mig_takes_posterior_samples_when_there_are_scales():
    y = np.arange(400) % 4
    encoded = Codes(y[:, None].astype(float), Latent.of(1), scale=np.full((400, 1), 0.05))
    assert metrics.mig(encoded, y, protocol="paper").settings["estimator"] == "posterior"
    assert metrics.mig(encoded, y, protocol="paper").value == pytest.approx(1, abs=0.01)
    assert metrics.mig(encoded.mean, y, protocol="paper").settings["estimator"] == "histogram"


def test_codes_carry_their_own_labels():
    factors = Factors.of({"shape": 3, "x": 20})
    y = factors.labels(np.arange(60))
    score = metrics.mig(Codes(y.astype(float), Latent.of(2), values=y, factors=factors))
    assert score.value == pytest.approx(1)
    assert score.table["factors"] == ["shape", "x"]


def test_a_big_table_is_subsampled_and_says_so():
    rng = np.random.default_rng(0)
    y = rng.integers(4, size=(40_000, 2))
    score = metrics.dci(y + 0.1 * rng.normal(size=y.shape), y)
    assert score.settings["subsampled"] == "15,000 of 40,000 rows"


LABELS = st.one_of(
    st.lists(st.integers(-3, 3), min_size=24, max_size=24),
    st.lists(st.floats(-1e6, 1e6, width=32) | st.just(float("nan")), min_size=24, max_size=24),
    st.lists(st.text(max_size=2), min_size=24, max_size=24),
)
SCORED_METRICS = sorted(n for n, m in METRICS.items() if m.needs in ("factors", "codes"))


@pytest.mark.parametrize("name", SCORED_METRICS)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True)
@given(
    columns=st.lists(st.lists(st.floats(-1e9, 1e9, width=32), min_size=24, max_size=24), min_size=1, max_size=3),
    labels=st.lists(LABELS, min_size=1, max_size=2),
)
def test_odd_tables_give_a_score_or_a_named_error(name, columns, labels):
    metric = METRICS[name]
    fast = {"protocol": "fast"} if "fast" in metric.protocols else {}
    y = np.array([[column[i] for column in labels] for i in range(24)], dtype=object)
    try:
        score = metric(np.array(columns).T, y, **fast)
    except UnbraidError:
        return
    assert metric.span[0] <= score.value <= metric.span[1]


def test_a_discrete_factor_with_about_as_many_values_as_rows_is_warned_of():
    rng = np.random.default_rng(0)
    z, y = rng.normal(size=(200, 2)), rng.integers(4, size=200)
    index = rng.permutation(200)
    note = metrics.as_table(z, np.column_stack([y, index]), names=["shape", "row"]).notes["nearly_unique_factors"]
    assert note.startswith("row (about as many values as rows")
    assert "nearly_unique_factors" in metrics.mig(z, index).settings
    assert "nearly_unique_factors" not in metrics.as_table(z, y).notes
    assert "nearly_unique_factors" not in metrics.as_table(z, rng.normal(size=200)).notes


def test_free_text_is_left_out_unless_it_is_asked_for():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 200)
    remark = np.array([f"remark {i}" for i in range(200)])
    z, both = np.column_stack([y, rng.normal(size=200)]).astype(float), np.column_stack([y.astype(str), remark])
    table = metrics.as_table(z, both, names=["shape", "remark"])
    assert table.names == ("shape",)
    assert table.notes["left_out_text"].startswith("remark (text")
    assert metrics.mig(z, both).value == metrics.mig(z, y).value
    asked = metrics.as_table(z, both, names=["shape", "remark"], kinds=["ordinal", "class"])
    assert asked.names == ("shape", "remark")
    assert metrics.as_table(z, remark).names == ("y0",)
