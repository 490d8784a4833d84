"""Arrays of other frameworks, groups that leave columns out, options that do not exist, functions that misbehave."""

import warnings

import numpy as np
import pytest

from unbraid import metrics
from unbraid.codes import Codes
from unbraid.core.errors import UnbraidError
from unbraid.latent import Latent
from unbraid.metrics import METRICS, as_table

SCORED_METRICS = sorted(n for n, m in METRICS.items() if m.needs in ("factors", "codes"))


@pytest.fixture(scope="module")
def codes_and_labels() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    return y + 0.3 * rng.normal(size=y.shape), y


@pytest.mark.parametrize("name", SCORED_METRICS)
def test_columns_in_no_group_are_not_there(codes_and_labels, name):
    z, y = codes_and_labels
    wide = np.column_stack([z[:, 1], z[:, 0], np.random.default_rng(1).normal(size=600)])
    fast = {"protocol": "fast"} if "fast" in METRICS[name].protocols else {}
    some = METRICS[name](wide, y, groups=[[0], [2]], **fast)
    assert some.value == METRICS[name](wide[:, [0, 2]], y, **fast).value
    assert some.settings["ungrouped_columns"] == "1 of 3 left out"


def test_importances_of_groups_sum_to_one_and_scales_follow_their_columns(codes_and_labels):
    z, y = codes_and_labels
    matrix = metrics.dci(np.column_stack([z, z]), y, groups=[[3], [0]]).table["matrix"]
    assert matrix.sum(0) == pytest.approx([1, 1])
    encoded = Codes(np.column_stack([z, z[:, 0]]), Latent.of(3), scale=np.tile([0.1, 0.2, 0.3], (600, 1)))
    table = as_table(encoded, y, groups=[[2], [1]])
    assert table.scale[0].tolist() == [0.2, 0.3]
    assert (table.units[0].columns, table.column_names, table.subset(np.arange(5)).column_names) == (
        (1,),
        ("z1", "z2"),
        ("z1", "z2"),
    )


def test_correlations_name_their_columns_in_order(codes_and_labels):
    z = np.random.default_rng(0).normal(size=(200, 4))
    score = metrics.correlations(z, groups=[[3], [0, 1]])
    assert score.table["columns"] == ["z0", "z1", "z3"]
    assert score.table["codes"] == pytest.approx(np.corrcoef(z[:, [0, 1, 3]].T))


def test_a_far_offset_kills_no_column_and_rounding_is_no_life(codes_and_labels):
    z, y = codes_and_labels
    assert metrics.mig(z + 1e8, y).value == pytest.approx(metrics.mig(z, y).value, abs=1e-6)
    assert "dead_columns" not in as_table(1e-150 * z, y).notes
    constant = np.full((100_001, 1), 0.1)
    assert as_table(constant, np.arange(100_001) % 2).notes["dead_columns"] == "all 1"
    wobble = (1000 + 1e-5 * z).astype(np.float32)
    assert as_table(wobble, y).notes["dead_columns"] == "all 2"


def test_masks_are_kept(codes_and_labels):
    z, y = codes_and_labels
    hidden = np.ma.masked_array(y, mask=np.arange(600)[:, None] < np.array([[100, 0]]))
    assert as_table(z, hidden).notes["missing_labels"] == {"y0": 100}
    words = np.ma.masked_array(np.array(["a", "b", "c"])[y[:, 0]], mask=np.arange(600) < 7)
    assert as_table(z, words).notes["missing_labels"] == {"y0": 7}
    with pytest.raises(UnbraidError, match="3 masked entries"):
        as_table(np.ma.masked_array(z, mask=np.arange(1200).reshape(600, 2) < 3), y)


def test_a_ready_table_takes_nothing_beside_it(codes_and_labels):
    table = as_table(*codes_and_labels)
    for more in ({"groups": [[0]]}, {"factors": codes_and_labels[1]}, {"names": ["a", "b"]}):
        with pytest.raises(UnbraidError, match=f"found also {next(iter(more))}"):
            metrics.mig(table, **more)


def test_tensors_and_frames_are_taken(codes_and_labels):
    torch = pytest.importorskip("torch")
    z, y = codes_and_labels
    expected = metrics.mig(z, y).value
    assert metrics.mig(torch.tensor(z, requires_grad=True), torch.tensor(y)).value == expected
    assert metrics.mig(torch.tensor(z).bfloat16(), y).value == pytest.approx(expected, abs=0.02)

    class Frame:
        columns = ("shape", "hue")

        def to_numpy(self):
            return y

    assert metrics.mig(z, Frame()).table["factors"] == ["shape", "hue"]
    assert metrics.mig(z, Frame(), names=["a", "b"]).table["factors"] == ["a", "b"]


def test_groups_of_every_form(codes_and_labels):
    z = np.column_stack([codes_and_labels[0], codes_and_labels[0]])
    assert as_table(z, codes_and_labels[1], groups=[0, 2]).unit_names == ("z0", "z2")
    assert as_table(z, codes_and_labels[1], groups=[slice(0, 2), slice(2, None)]).units[1].columns == (2, 3)
    assert as_table(z, codes_and_labels[1], groups=np.array([[0, 1], [2, 3]])).unit_names == ("z0+z1", "z2+z3")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"groups": 3}, "lists of columns"),
        ({"groups": [[0], [0.5]]}, r"group 1 must list columns .* found \[0.5\]"),
        ({"groups": [[0], [7]]}, "group 1 must"),
        ({"groups": {"pose": [-1]}}, "group 'pose' must"),
        ({"groups": [[0, 0], [1]]}, "z0 more than once"),
        ({"names": ["a", "a"]}, "different names: found a"),
        ({"names": "ab"}, "list with one name"),
        ({"kinds": "ordinal"}, r"kinds=\[\"continuous\""),
        ({"bin": 3}, "mig takes no option 'bin'. Did you mean 'bins'"),
        ({"seed": -1}, "seed must be a whole number"),
        ({"seed": 0.5}, "seed must be a whole number"),
    ],
)
def test_mistakes_are_named(codes_and_labels, options, message):
    with pytest.raises(UnbraidError, match=message):
        metrics.mig(*codes_and_labels, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"depth": 3}, "dci with histogram_boosting takes no option 'depth'.* Options: rounds, rate, bins, ridge"),
        ({"protocol": "paper", "rounds": 3}, "dci with random_forest takes no option 'rounds'"),
        ({"threads": -1}, "threads must be"),
        ({"bins": 300}, "bins 2 to 256"),
        ({"bins": 1}, "bins 2 to 256"),
        ({"rounds": 0}, "rounds 1 or more"),
        ({"rate": 0}, "rate in"),
        ({"ridge": 0}, "ridge above 0"),
        ({"seed": -1}, "seed must be"),
    ],
)
def test_options_of_predictors_are_checked(codes_and_labels, options, message):
    with pytest.raises(UnbraidError, match=message):
        metrics.dci(*codes_and_labels, **options)


def test_fast_says_all_its_settings_and_256_bins_fit_a_byte(codes_and_labels):
    settings = metrics.dci(*codes_and_labels).settings
    assert {key: settings[key] for key in ("rounds", "rate", "bins", "ridge")} == {
        "rounds": 10, "rate": 0.1, "bins": 64, "ridge": 1.0
    }  # fmt: skip
    fine, finest = (metrics.informativeness(*codes_and_labels, bins=np.int64(b)).value for b in (200, 256))
    assert finest == pytest.approx(fine, abs=0.05)


def test_huge_codes_and_three_rows_raise_no_warning(codes_and_labels):
    z, y = codes_and_labels
    assert metrics.attributes(1e150 * z, y).value == metrics.attributes(z, y).value
    assert metrics.attributes(z + 1e8, y).value == pytest.approx(metrics.attributes(z, y).value, abs=0.01)
    metrics.dci(np.eye(3)[:, :2], [[0, 1], [1, 0], [0, 0]], protocol="paper")


def test_a_function_is_no_table_of_codes(codes_and_labels):
    with pytest.raises(
        UnbraidError, match="found a function. Only these metrics take a function: factor_vae, beta_vae, irs"
    ):
        metrics.mig(lambda rows: rows, codes_and_labels[1])


def test_two_rows_are_a_named_error():
    with pytest.raises(UnbraidError, match="no factor takes two values in the fitted rows"):
        metrics.informativeness(np.eye(2), np.array([0, 1]))


def test_filters_of_warnings_are_left_alone(codes_and_labels):
    metrics.dci(*codes_and_labels, protocol="lasso")  # libraries add filters of their own when first imported
    before = list(warnings.filters)
    for seed in range(4):
        metrics.dci(*codes_and_labels, protocol="lasso", threads=3, seed=seed)
    assert list(warnings.filters) == before


@pytest.mark.parametrize("name", sorted(n for n, m in METRICS.items() if m.takes_function))
def test_functions_are_asked_for_few_rows_and_checked_every_time(codes_and_labels, name):
    y, sizes = codes_and_labels[1], []

    def encode(rows):
        sizes.append(len(rows))
        return np.column_stack([rows, rows[:, 0]]).astype(float)

    score = METRICS[name](encode, np.repeat(y, 20, 0), protocol="fast", chunk_size=500, groups=[[0], [1]])
    assert max(sizes) == 500
    assert "10,000 of 12,000" in score.settings["subsampled"]
    assert score.table["matrix"].shape == (2, 2)
    with pytest.raises(UnbraidError, match="chunk_size must be"):
        METRICS[name](encode, y, chunk_size=0)
    sizes.clear()
    METRICS[name](encode, y, protocol="fast")
    if len(sizes) == 1:  # there is no second call to spoil
        return
    for spoil, message in ((lambda z: z * np.nan, "finite"), (lambda z: z[:5], "one row of codes per row")):
        calls = []

        def odd(rows, spoil=spoil, calls=calls):
            calls.append(1)
            return rows.astype(float) if len(calls) == 1 else spoil(rows.astype(float))

        with pytest.raises(UnbraidError, match=message):
            METRICS[name](odd, y, protocol="fast")


@pytest.mark.parametrize("name", SCORED_METRICS)
@pytest.mark.parametrize("size", [1e300, 1e-200, 1e140])
def test_numbers_at_the_ends_of_the_range_are_scored_or_named(codes_and_labels, name, size):
    z, y = codes_and_labels
    fast = {"protocol": "fast"} if "fast" in METRICS[name].protocols else {}
    for codes, labels in ((z * size, y), (z, y * size)):
        try:
            assert np.isfinite(METRICS[name](codes, labels, **fast).value)
        except UnbraidError as error:
            assert size == 1e300, error
            assert "squared and summed" in str(error)


@pytest.mark.parametrize("name", SCORED_METRICS)
def test_every_metric_prunes_by_one_option_and_says_so(codes_and_labels, name):
    z, y = codes_and_labels
    noise = np.random.default_rng(3).normal(size=(600, 2))
    encoded = Codes(np.column_stack([z, 0.01 * noise]), Latent.of(4), kl=np.array([1.0, 2.0, 0.001, 0.002]))
    fast = {"protocol": "fast"} if "fast" in METRICS[name].protocols else {}
    kept = METRICS[name](Codes(z, Latent.of(2), kl=np.array([1.0, 2.0])), y, **fast)
    for how in ("kl", "variance"):
        found = METRICS[name](encoded, y, prune=how, **fast)
        assert found.value == kept.value, how
        assert found.settings["prune"] == how
        assert found.settings["least"] == {"kl": 0.01, "variance": 0.05}[how]
    assert ("prune" in METRICS[name](encoded, y, **fast).settings) == METRICS[name].prunes
    with pytest.raises(UnbraidError, match="needs the KL"):
        METRICS[name](z, y, prune="kl", **fast)
    with pytest.raises(UnbraidError, match="unknown pruning"):
        METRICS[name](encoded, y, prune="klein", **fast)


def test_dead_latents_no_longer_bend_mig_when_pruned():
    rng = np.random.default_rng(0)
    y = np.stack(np.unravel_index(np.arange(600), (3, 4, 50)), 1)[:, :2]
    z = np.column_stack([y + 0.2 * rng.normal(size=y.shape), 1e-3 * (y[:, 0] + rng.normal(size=600))])
    encoded = Codes(z, Latent.of(3), kl=np.array([2.0, 2.0, 1e-6]))
    assert metrics.mig(encoded, y, prune="kl").value == metrics.mig(z[:, :2], y).value
    assert metrics.mig(encoded, y).value < metrics.mig(encoded, y, prune="kl").value - 0.05
    silent = metrics.mig(Codes(z, Latent.of(3), kl=np.zeros(3)), y, prune="kl")
    assert silent.value == 0
    assert silent.settings["pruned_units"] == "all 3"


def test_slow_boosting_says_what_it_will_take(codes_and_labels, monkeypatch):
    from unbraid.metrics.estimation import importances

    monkeypatch.setattr(importances, "TREES", 3)
    monkeypatch.setattr(importances, "SECONDS", 0)
    z, y = codes_and_labels
    with pytest.warns(UserWarning, match=r"grows 8 trees, about \d+ minutes. protocol='fast' takes seconds"):
        metrics.dci(z, y[:, 1], protocol="dlib", rounds=2)
