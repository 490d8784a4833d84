"""What metrics must do to codes that are perfect, rotated, duplicated, missing a factor, or noisy."""

import numpy as np
import pytest

from unbraid import metrics
from unbraid.data.factors import Factors
from unbraid.metrics import METRICS

FACTORS = Factors.of({"a": 3, "b": 4, "c": 8, "d": 10})
N = 3000
PROTOCOLS = [(n, p) for n, m in METRICS.items() if m.needs == "factors" for p in m.protocols or ("",)]


@pytest.fixture(scope="module")
def example_codes() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    y = FACTORS.labels(rng.integers(FACTORS.count, size=N))
    s = (y - y.mean(0)) / y.std(0)
    turn = np.kron(np.eye(2), np.array([[1, -1], [1, 1]]) / np.sqrt(2))  # 45° in two planes
    missing = s.copy()
    missing[:, 3] = 0
    return {"y": y, "perfect": s, "rotated": s @ turn, "duplicated": np.column_stack([s, s]), "missing": missing,
            "noisy": s + rng.normal(size=s.shape), "random": rng.normal(size=s.shape)}  # fmt: skip


def metric_value(name: str, z: np.ndarray, y: np.ndarray) -> float:
    fast = {"protocol": "fast"} if "fast" in METRICS[name].protocols else {}
    return METRICS[name](z, y, **fast).value


@pytest.fixture(scope="module")
def perfect_table(example_codes) -> metrics.Table:
    """One table for all metrics, which share fitted predictors."""
    return metrics.as_table(example_codes["perfect"], example_codes["y"])


@pytest.mark.parametrize(("name", "protocol"), PROTOCOLS)
def test_identity_codes_reach_the_top_under_every_protocol(perfect_table, name, protocol):
    settings = {"protocol": protocol} if protocol else {}
    assert METRICS[name](perfect_table, **settings).value > METRICS[name].perfect.get(protocol, 0.95)


def test_identity_codes_reach_the_top_under_further_protocols(example_codes):
    z, y = example_codes["perfect"], example_codes["y"]
    assert metrics.beta_vae(z, y, protocol="dip_vae").value > 0.95
    assert metrics.info_mec(z, y, protocol="paper").value > 0.9
    assert metrics.dci(z, y, protocol="paper").value > 0.9
    assert metrics.dci(z, y, protocol="lasso").value > 0.95


@pytest.mark.parametrize(("name", "damage"), [(n, d) for n in sorted(METRICS) for d in METRICS[n].lowered_by])
def test_declared_damages_lower_the_score(example_codes, name, damage):
    perfect, damaged = (metric_value(name, example_codes[c], example_codes["y"]) for c in ("perfect", damage))
    assert damaged < perfect - 0.03


def test_duplicates_lower_completeness_but_not_disentanglement(example_codes):
    y = example_codes["y"]
    assert (
        metric_value("completeness", example_codes["duplicated"], y)
        < metric_value("completeness", example_codes["perfect"], y) - 0.2
    )
    assert metric_value("dci", example_codes["duplicated"], y) > 0.95
    assert metrics.info_mec(example_codes["duplicated"], y).table["compactness"] < 0.6


def test_rotation_leaves_what_asks_for_no_alignment(example_codes):
    y = example_codes["y"]
    assert metric_value("r2", example_codes["rotated"], y) == pytest.approx(1, abs=0.01)
    assert metric_value("explicitness", example_codes["rotated"], y) == pytest.approx(
        metric_value("explicitness", example_codes["perfect"], y), abs=0.03
    )


def test_figure_3_codes_with_one_factor_missing_fool_higgins_but_not_the_vote():
    """Kim & Mnih 2018, Fig. 3: K − 1 factors held score ~1 on Higgins' metric and (K − 1)/K or so on theirs."""
    rng = np.random.default_rng(1)
    y = FACTORS.labels(rng.integers(FACTORS.count, size=N))
    codes = (y - y.mean(0)) / y.std(0)
    held = codes[:, :3] + 0.05 * rng.normal(size=(N, 3))
    for protocol in ("dlib", "dip_vae"):
        assert metrics.beta_vae(held, y, protocol=protocol).value > 0.97, protocol
    for protocol in ("paper", "dlib"):
        assert 0.7 < metrics.factor_vae(held, y, protocol=protocol).value < 0.85, protocol


def test_a_live_column_of_noise_lets_the_vote_name_the_missing_factor():
    """The vote has a failure of its own: noise columns win only when the missing factor is held."""
    rng = np.random.default_rng(1)
    y = FACTORS.labels(rng.integers(FACTORS.count, size=N))
    held = np.column_stack([y[:, :3], rng.normal(size=(N, 12))])
    assert metrics.factor_vae(held, y).value > 0.9


def test_votes_scored_on_themselves_are_higher_on_random_codes(example_codes):
    """On codes that know nothing, 800 votes scored on themselves beat votes scored on others."""
    y = example_codes["y"]
    random = np.random.default_rng(3).normal(size=(N, 10))
    paper = np.mean([metrics.factor_vae(random, y, protocol="paper", seed=s).value for s in range(5)])
    apart = np.mean([metrics.factor_vae(random, y, protocol="dlib", seed=s).value for s in range(5)])
    assert paper > apart + 0.02


def test_udr_is_high_for_reordered_copies_low_for_rotated_and_near_nothing_for_strangers(example_codes):
    z = example_codes["perfect"]
    rng = np.random.default_rng(0)
    copies = [z, -z[:, [2, 0, 3, 1]] * 5, np.column_stack([np.zeros(N), z])]
    for similarity in ("spearman", "lasso"):
        same = metrics.udr(copies, similarity=similarity).value
        turned = metrics.udr([z, example_codes["rotated"]], similarity=similarity).value
        strange = metrics.udr([z, rng.normal(size=z.shape)], similarity=similarity).value
        assert same > 0.8 > turned + 0.1
        assert strange < 0.1


def test_ceiling_of_the_first_orientation_equal_to_the_last():
    """dSprites' orientations 0 and 39 are one image: I/H cannot pass 1 − (2/40) log 2 / log 40 = .9906."""
    y = np.arange(4000) % 40
    bound = metrics.ceilings(y % 39, y)
    assert bound["information"] == pytest.approx(1 - (2 / 40) * np.log(2) / np.log(40), abs=1e-9)
    assert bound["information"] == pytest.approx(0.9906, abs=1e-4)
    assert bound["accuracy"] == pytest.approx(39 / 40)
    assert bound["one"] == 1


def test_no_code_of_the_image_passes_its_ceiling():
    y = np.stack([np.arange(1200) % 6, np.arange(1200) // 6 % 4], 1)
    image = np.where(y[:, 0] == 5, 0, y[:, 0]) * 4 + y[:, 1]
    bounds = metrics.ceilings(image, y, {n: m.ceiling for n, m in METRICS.items()})
    best = np.column_stack([image // 4, image % 4]).astype(float)
    for name, bound in bounds.items():
        assert metric_value(name, best, y) <= bound + 0.02, name


def test_ceilings_of_a_factor_that_no_image_shows():
    """Each in its own way: units that follow the other factor reach 1 by MIG-sup, entropies weigh in DCIMIG."""
    y = np.repeat(np.stack(np.unravel_index(np.arange(80), (2, 40)), 1), 10, 0)
    bounds = metrics.ceilings(y[:, 1], y, {n: m.ceiling for n, m in METRICS.items()}, bins=40)
    found = {n: METRICS[n](y[:, 1:].astype(float), y, bins=40).value for n in ("mig", "mig_sup", "dcimig", "jemmig")}
    assert (bounds["mig"], bounds["mig_sup"]) == pytest.approx((0.5, 1))
    assert bounds["dcimig"] == pytest.approx(np.log(40) / np.log(80))
    for name, score in found.items():
        assert score <= bounds[name] + 1e-9, name
    for name in ("mig", "mig_sup", "dcimig"):  # these bounds are tight, the joint bound of JEMMIG is not
        assert found[name] == pytest.approx(bounds[name]), name


def test_ceilings_follow_the_protocol():
    """Values that share a picture cost an error of numbers less than an accuracy; an SVM's accuracy is no R²."""
    y = np.repeat(np.arange(40), 30)
    for protocol in ("paper", "dlib", "fast"):
        bound = METRICS["informativeness"].ceiling_kind(protocol)
        top = metrics.ceilings(y // 2, y, {"it": bound})["it"]
        assert (
            metrics.informativeness(
                (y // 2).astype(float), y, protocol="paper" if protocol == "paper" else "fast"
            ).value
            <= top + 0.01
        )
    assert metrics.ceilings(y // 2, y, {"it": METRICS["informativeness"].ceiling_kind("paper")})["it"] > 0.9
    assert metrics.ceilings(y // 2, y, {"it": METRICS["informativeness"].ceiling_kind("fast")})["it"] == 0.5
    z = np.random.default_rng(0).normal(size=1200)
    seen = metrics.ceilings(np.arange(1200) // 2, np.repeat(z[:600], 2) + 0.1 * z, kinds=["continuous"])
    assert seen["prediction"] == seen["regression"]  # continuous factors are never classes
    y = np.repeat(np.arange(4), 100)
    image = np.where(y == 3, 0, y)
    codes = np.column_stack([image, np.random.default_rng(0).normal(size=400)])
    for protocol in ("paper", "dlib"):
        top = metrics.ceilings(image, y, {"sap": METRICS["sap"].ceiling_kind(protocol)})["sap"]
        assert metrics.sap(codes, y, protocol=protocol).value <= top + 0.05


def test_a_renderer_is_asked_for_new_combinations_that_keep_the_factor_held():
    from unbraid.metrics.estimation.fixed_factor_sampling import fixed_factor_sampler

    big, requested = Factors.of({"one": 1, "shape": 3, "x": 200, "y": 200}), []

    def encode(rows):
        requested.append(rows)
        return rows.astype(float)

    source = fixed_factor_sampler(encode, big, 0, chunk_size=10_000)
    assert source.table.names == ("shape", "x", "y")  # a factor with one value cannot be held
    known = {tuple(r) for r in requested[0]}
    z = source.sample_codes(np.random.default_rng(0), np.array([0, 1, 2]), 50)
    drawn = requested[1].reshape(3, 50, 4)
    assert [len(np.unique(drawn[i, :, i + 1])) for i in range(3)] == [1, 1, 1]
    assert len(np.unique(drawn[0, :, 2])) > 20
    assert not {tuple(r) for r in requested[1]} <= known
    assert z.shape == (3, 50, 4)


def test_an_encoding_function_scores_as_its_codes_do(example_codes):
    def encode(rows):
        return np.column_stack([rows[:, 0] + rows[:, 1], rows[:, 1], rows[:, 2], rows[:, 3]]).astype(float)

    y = example_codes["y"]
    for metric in (metrics.factor_vae, metrics.beta_vae, metrics.irs):
        fixed = metric(encode(y), y, protocol="fast").value
        rendered = metric(encode, FACTORS, protocol="fast").value
        assert rendered == pytest.approx(fixed, abs=0.04)
