"""Slow re-derivations of every formula, written from the papers, against the fast ones; and tables done by hand."""

from itertools import permutations
from math import log, sqrt

import numpy as np
import pytest

from tests.toys import labelled_codes
from unbraid import metrics
from unbraid.codes import Codes
from unbraid.latent import Latent, onehot
from unbraid.metrics import as_table
from unbraid.metrics.estimation.dci_scores import dci_components
from unbraid.metrics.estimation.fixed_factor_sampling import fixed_factor_sampler, gini_variance
from unbraid.metrics.estimation.importances import ImportanceFit
from unbraid.metrics.estimation.information import (
    discretise,
    factor_entropies,
    mutual_information_matrix,
    ross_information,
)
from unbraid.metrics.estimation.linear import roc_auc
from unbraid.metrics.scores.attributes import hinge_bias
from unbraid.metrics.scores.dci_es import dci_es


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    return labelled_codes()


def slow_information(a: list, b: list) -> float:
    n, total = len(a), 0.0
    for u in set(a):
        for v in set(b):
            both = sum(x == u and y == v for x, y in zip(a, b, strict=True)) / n
            if both > 0:
                total += both * log(both / ((a.count(u) / n) * (b.count(v) / n)))
    return total


def slow_entropy(a: list) -> float:
    return -sum(a.count(u) / len(a) * log(a.count(u) / len(a)) for u in set(a))


def slow_bins(column: np.ndarray, bins: int = 20) -> list:
    """numpy's own equal-width histogram edges, digitised as disentanglement_lib does."""
    return np.digitize(column, np.histogram(column, bins)[1][:-1]).tolist()


@pytest.fixture(scope="module")
def slow_matrix(data) -> np.ndarray:
    z, y = data
    return np.array([[slow_information(slow_bins(c), f.tolist()) for f in y.T] for c in z.T])


def test_information_matrix_and_entropies(data, slow_matrix):
    table = as_table(*data)
    assert mutual_information_matrix(table) == pytest.approx(slow_matrix, abs=1e-9)
    assert factor_entropies(table) == pytest.approx([slow_entropy(f.tolist()) for f in data[1].T])


def test_mig_and_its_kin(data, slow_matrix):
    z, y = data
    h = [slow_entropy(f.tolist()) for f in y.T]
    gaps = [(sorted(slow_matrix[:, k])[-1] - sorted(slow_matrix[:, k])[-2]) / h[k] for k in range(3)]
    assert metrics.mig(z, y).value == pytest.approx(np.mean(gaps))
    normal = slow_matrix / h
    informative = [u for u in range(4) if u != 2]  # column 2 is noise
    per_unit = [sorted(normal[u])[-1] - sorted(normal[u])[-2] for u in informative]
    assert metrics.mig_sup(z, y).value == pytest.approx(np.mean(per_unit))
    joint = []
    for k in range(3):
        best = int(np.argmax(slow_matrix[:, k]))
        pairs = list(zip(slow_bins(z[:, best]), y[:, k].tolist(), strict=True))
        joint.append(
            1 - (slow_entropy(pairs) - slow_matrix[best, k] + sorted(slow_matrix[:, k])[-2]) / (h[k] + log(20))
        )
    assert metrics.jemmig(z, y).value == pytest.approx(np.mean(joint))
    earned = [0.0, 0.0, 0.0]
    for u in range(4):
        k = int(np.argmax(slow_matrix[u]))
        earned[k] = max(earned[k], sorted(slow_matrix[u])[-1] - sorted(slow_matrix[u])[-2])
    assert metrics.dcimig(z, y).value == pytest.approx(sum(earned) / sum(h))


def test_med_and_modularity(data, slow_matrix):
    z, y = data
    kept = slow_matrix.copy()
    kept[2] = 0
    r = kept / kept.sum(0)
    value, total = 0.0, r.sum()
    for u in range(4):
        p = r[u] / r[u].sum() if r[u].sum() else np.full(3, 1 / 3)
        value += r[u].sum() / total * (1 + sum(q * log(q) / log(3) for q in p if q > 0))
    assert metrics.med(z, y).value == pytest.approx(value)
    each = []
    for u in range(4):
        best = max(slow_matrix[u])
        each.append(1 - sum((m / best) ** 2 for m in slow_matrix[u] if m != best) / 2)
    assert metrics.modularity(z, y, protocol="dlib").value == pytest.approx(np.mean(each))
    assert metrics.modularity(z, y, protocol="fast").value == pytest.approx(np.mean([each[u] for u in (0, 1, 3)]))


def test_info_mec_from_its_definition(data, slow_matrix):
    z, y = data
    n = (slow_matrix / [slow_entropy(f.tolist()) for f in y.T])[[0, 1, 3]]
    m = (np.mean([max(row) / sum(row) for row in n]) - 1 / 3) / (1 - 1 / 3)
    c = (np.mean([max(column) / sum(column) for column in n.T]) - 1 / 3) / (1 - 1 / 3)
    score = metrics.info_mec(z, y)
    assert score.value == pytest.approx(m)
    assert score.table["compactness"] == pytest.approx(c)


def test_dci_of_a_table_done_by_hand():
    """R = [[1, 0], [0, ½], [0, ½]]: pure units, D = 1; factor 2 is split in two of three, C₂ = 1 − log 2 / log 3."""
    r = np.array([[1.0, 0.0], [0.0, 0.5], [0.0, 0.5]])
    table = as_table(np.random.default_rng(0).normal(size=(20, 3)), np.stack([np.arange(20) % 2, np.arange(20) % 3], 1))
    values, rows = dci_components(table, ImportanceFit(r, np.ones(2), np.zeros(2), ("accuracy",) * 2))
    assert values["disentanglement"] == pytest.approx(1)
    assert rows["factor_completeness"] == pytest.approx([1, 1 - log(2) / log(3)])
    assert values["completeness"] == pytest.approx(1 - 0.5 * log(2) / log(3))
    even, _ = dci_components(table, ImportanceFit(np.full((3, 2), 1 / 3), np.ones(2), np.zeros(2), ("accuracy",) * 2))
    assert even["disentanglement"] == pytest.approx(0)
    assert even["completeness"] == pytest.approx(0)


def test_sap_is_the_gap_of_squared_correlations(data):
    z, y = data
    s = np.array([[np.corrcoef(c, f)[0, 1] ** 2 for f in y.T] for c in z.T])
    expected = np.mean([sorted(s[:, k])[-1] - sorted(s[:, k])[-2] for k in range(3)])
    assert metrics.sap(z, y).value == pytest.approx(expected, abs=1e-6)


def test_area_under_the_curve_counts_pairs():
    rng = np.random.default_rng(0)
    score, positive = np.round(rng.normal(size=60), 1), rng.random(60) < 0.4
    wins = [1.0 if a > b else 0.5 if a == b else 0.0 for a in score[positive] for b in score[~positive]]
    assert roc_auc(score, positive) == pytest.approx(np.mean(wins))


def test_irs_by_loops(data):
    z, y = data
    scores, weights = [], []
    for c in z.T:
        farthest = np.abs(c - c.mean()).max()
        best = 0.0
        for f in y.T:
            far = [np.percentile(np.abs(c[f == v] - c[f == v].mean()), 99) for v in sorted(set(f.tolist()))]
            best = max(best, 1 - np.mean(far) / farthest)
        scores.append(best)
        weights.append(farthest)
    assert metrics.irs(z, y, protocol="dlib").value == pytest.approx(np.average(scores, weights=weights))
    assert metrics.irs(z, y, protocol="fast").value == pytest.approx(np.mean(scores))


def test_mcc_tries_every_matching(data):
    from scipy.stats import spearmanr

    z, y = data
    for correlation, of in (("pearson", np.corrcoef), ("spearman", spearmanr)):
        c = np.array([[abs(np.asarray(of(a, b)).ravel()[0 if of is spearmanr else 1]) for b in y.T] for a in z.T])
        best = max(np.mean([c[u, k] for k, u in enumerate(p)]) for p in permutations(range(4), 3))
        assert metrics.mcc(z, y, correlation=correlation).value == pytest.approx(best, abs=1e-6)


def test_correlation_of_codes_and_the_most_entangled_factors(data):
    z, y = data
    c = np.abs(np.corrcoef(z.T))
    score = metrics.correlations(z, y, top=2)
    expected = np.mean([c[i, j] for i in range(4) for j in range(4) if i != j])
    assert score.value == pytest.approx(expected)
    assert score.table["over_all"] == pytest.approx(expected)
    np.testing.assert_allclose(np.abs(score.table["codes"]), c)
    assert score.table["entangled"]["y2"]["unit"] == "z3"
    assert next(iter(score.table["entangled"]["y2"]["factors"])) == "y2"


@pytest.mark.parametrize("known", ["kl", "scale"])
def test_correlations_are_those_of_active_columns_and_both_are_given(known):
    rng = np.random.default_rng(0)
    live, shared = rng.normal(size=(3000, 3)), rng.normal(size=(3000, 1))
    dead = 1e-3 * (shared + 0.1 * rng.normal(size=(3000, 4)))  # collapsed means, and yet they go together
    codes = Codes(
        np.column_stack([live, dead]),
        Latent.of(7),
        scale=np.tile([0.1] * 3 + [1.0] * 4, (3000, 1)) if known == "scale" else None,
        kl=np.array([2.0] * 3 + [1e-5] * 4) if known == "kl" else None,
    )
    score = metrics.correlations(codes)
    assert score.settings["active_columns"] == 3
    assert score.value == score.table["over_active"] < 0.05
    assert score.table["over_all"] > 0.25
    assert metrics.correlations(codes, prune=known if known == "kl" else "variance").table["over_all"] == score.value


def test_r2_is_that_of_least_squares():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(6000, 3))
    y = z @ [1.0, -2.0, 0.0] + rng.normal(size=6000)
    assert metrics.r2(z, y, kinds=["continuous"]).value == pytest.approx(5 / 6, abs=0.02)
    bent = np.sin(2 * z[:, 0])
    assert metrics.r2(z, bent, kinds=["continuous"], model="nonlinear").value > 0.95
    assert metrics.r2(z, bent, kinds=["continuous"]).value < 0.6


def test_dci_es_of_a_linear_and_of_a_bent_code():
    """A factor that is linear in the code is explicit at once; one that is wound up needs capacity."""
    rng = np.random.default_rng(0)
    y = rng.uniform(-1, 1, size=(4000, 1))
    linear = dci_es(np.column_stack([y, rng.normal(size=4000)]), y, kinds=["continuous"])
    assert linear.value > 0.98
    assert linear.table["size"] == 0.5
    angle = 3 * np.pi * y[:, 0]
    wound = dci_es(np.column_stack([np.cos(angle), np.sin(angle) + y[:, 0]]), y, kinds=["continuous"])
    curve = np.minimum.accumulate(wound.table["curve"][0])
    low = curve.min()
    kappa = [log(1 + 2 + features) for features in (0, 16, 32, 64, 128, 256, 512)]  # weights: a constant, two codes, …
    trapezium = sum(((curve[i] + curve[i + 1]) / 2 - low) * (kappa[i + 1] - kappa[i]) for i in range(6))
    triangle = (kappa[-1] - kappa[0]) / 2
    assert wound.value == pytest.approx(1 - trapezium / (triangle * (1 - low)))
    assert wound.value < linear.value - 0.1
    codes = np.column_stack([np.cos(angle), np.sin(angle) + y[:, 0]])
    assert dci_es(codes, y, kinds=["continuous"], lowest="zero").value == pytest.approx(1 - trapezium / triangle)
    noise = rng.normal(size=(4000, 2))
    assert dci_es(noise, y, kinds=["continuous"]).value == 0
    assert dci_es(noise, y, kinds=["continuous"], lowest="zero").value > 0.95  # what never falls has no area


def test_udr_by_loops():
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(300, 3)), rng.normal(size=(300, 2))
    b[:, 0] += 2 * a[:, 1]
    from scipy.stats import spearmanr

    r = np.array([[abs(spearmanr(x, y).statistic) for y in b.T] for x in a.T])
    by_rows = sum(max(row) ** 2 / sum(row) for row in r)
    by_columns = sum(max(column) ** 2 / sum(column) for column in r.T)
    assert metrics.udr([a, b]).value == pytest.approx((by_rows + by_columns) / 5)


def test_hoyer_by_hand():
    assert metrics.hoyer(np.array([[3.0, 4.0], [1.0, 0.0]]), scaling="none").value == pytest.approx(
        ((sqrt(2) - 7 / 5) / (sqrt(2) - 1) + 1) / 2
    )
    z = np.random.default_rng(0).normal(size=(50, 4)) * [1, 5, 9, 0]
    scaled = z[:, :3] / z[:, :3].std(0)
    each = [(sqrt(3) - abs(row).sum() / sqrt((row**2).sum())) / (sqrt(3) - 1) for row in scaled]
    assert metrics.hoyer(z).value == pytest.approx(np.mean(each))


def test_total_correlation_of_a_gaussian_pair():
    """TC = −½ log(1 − ρ²), from the covariance and from the exact mixture."""
    rng = np.random.default_rng(0)
    rho, n = 0.8, 2000
    mu = rng.multivariate_normal([0, 0], [[0.91, rho], [rho, 0.91]], size=n)
    codes = Codes(mu, Latent.of(2), scale=np.full((n, 2), 0.3))  # C = 0.91 + 0.09 = 1 on the diagonal
    truth = -0.5 * log(1 - rho**2)
    assert metrics.gaussian_total_correlation(codes).value == pytest.approx(truth, abs=0.04)
    exact = metrics.total_correlation(codes, draws=2000)
    assert exact.value == pytest.approx(truth, abs=0.06)
    assert exact.interval[0] < truth < exact.interval[1]
    assert exact.settings["components"] == n


def test_posterior_information_is_that_of_mixtures_over_all_rows():
    """Against a plain double loop over draws and rows, with holes in the labels."""
    from unbraid.metrics.estimation.aggregate_posterior import draw_samples, pointwise_information

    rng = np.random.default_rng(1)
    n = 60
    y = np.column_stack([rng.integers(3, size=n), rng.integers(4, size=n)]).astype(float)
    y[:7, 1] = np.nan
    codes = Codes(rng.normal(size=(n, 2)) + y[:, :1], Latent.of(2), scale=rng.uniform(0.2, 0.6, size=(n, 2)))
    table = as_table(codes, y)
    rows, z = draw_samples(table, 25, 0)
    found = pointwise_information(table, 0, 25)
    for a, row in enumerate(rows):
        for u in range(2):
            q = np.exp(-0.5 * ((z[a, u] - codes.mean[:, u]) / codes.scale[:, u]) ** 2) / codes.scale[:, u]
            for k in range(2):
                known = table.y[:, k] >= 0
                same = table.y[:, k] == table.y[row, k]
                if known[row]:
                    assert found[a, u, k] == pytest.approx(log(q[same].mean()) - log(q[known].mean()))
                else:
                    assert np.isnan(found[a, u, k])


def test_mig_of_the_paper_counts_every_row_and_gives_its_error():
    """An independent code: a subset with each sample's own row in it says more than all rows do."""
    rng = np.random.default_rng(0)
    n = 3000
    y = np.arange(n) % 30
    codes = Codes(rng.normal(size=(n, 2)), Latent.of(2), scale=np.full((n, 2), 0.02))
    score = metrics.mig(codes, y, protocol="paper")
    alone = score.table["matrix"][0, 0]
    few = metrics.mig(Codes(codes.mean[:300], codes.tree, scale=codes.scale[:300]), y[:300], protocol="paper").table[
        "matrix"
    ][0, 0]
    assert alone < 0.4 < 1.2 < few  # nats that are not there: the fewer components, the more
    assert score.settings["components"] == n
    assert score.settings["draws"] >= 1000
    assert 0 < score.table["standard_error"] < 0.05
    spread = np.std([metrics.mig(codes, y, protocol="paper", seed=s).value for s in range(8)])
    assert spread < 3 * score.table["standard_error"]


def test_information_from_posterior_samples_matches_the_gaussian_channel():
    """z = y + N(0, σ²) with two values of y: I by quadrature, against samples and against neighbours."""
    rng = np.random.default_rng(0)
    n, sigma = 2400, 0.7
    y = np.arange(n) % 2
    grid = np.linspace(-5, 6, 4001)
    p = [np.exp(-0.5 * ((grid - c) / sigma) ** 2) / (sigma * sqrt(2 * np.pi)) for c in (0, 1)]
    mix = (p[0] + p[1]) / 2
    truth = sum(0.5 * np.trapezoid(q * np.log(q / mix), grid) for q in p)
    codes = Codes(y[:, None].astype(float), Latent.of(1), scale=np.full((n, 1), sigma))
    table = as_table(codes, y)
    assert mutual_information_matrix(table, "posterior")[0, 0] == pytest.approx(truth, abs=0.03)
    drawn = y[:, None] + sigma * rng.normal(size=(n, 1))
    assert ross_information(drawn, y) == pytest.approx(truth, abs=0.05)


def test_neighbours_agree_with_scikit_learn():
    from sklearn.feature_selection import mutual_info_classif

    rng = np.random.default_rng(0)
    y = rng.integers(4, size=800)
    z = y + rng.normal(size=800)
    theirs = mutual_info_classif(z[:, None], y, n_neighbors=3, random_state=0)[0]
    assert ross_information((z / z.std())[:, None], y) == pytest.approx(theirs, abs=0.01)


def test_normalised_variances_by_a_plain_loop(data):
    z, y = data
    source = fixed_factor_sampler(z, y, 0)
    k = np.array([0, 1, 2, 0, 1])
    fast = source.normalised_variances(np.random.default_rng(5), k, 20)
    rows = source.sample_rows(np.random.default_rng(5), k, 20)
    for i, index in enumerate(rows):
        assert len(set(y[index, k[i]])) == 1
        assert fast[i] == pytest.approx(z[index].var(0, ddof=1) / z.var(0), abs=1e-9)


def test_gini_variance_counts_unlike_pairs():
    """Kim & Mnih 2018, Eq. 4: 1/(2N(N−1)) Σ_ij d(x_i, x_j), d = 1 for unlike; over the same of all rows."""
    rng = np.random.default_rng(0)
    symbols = rng.integers(3, size=300)
    codes = Codes(np.eye(3)[symbols], Latent.of({"c": onehot(3)}))
    table = as_table(codes, np.arange(300) % 2)

    def slow_gini(x) -> float:
        return sum(a != b for a in x for b in x) / (2 * len(x) * (len(x) - 1))

    draw = rng.integers(300, size=(2, 12))
    expected = [slow_gini(symbols[d]) / slow_gini(symbols) for d in draw]
    assert gini_variance(table.scaled[draw], table, [0, 1, 2]) == pytest.approx(expected)


def test_votes_of_a_table_done_by_hand():
    """Votes V = [[5, 0], [2, 3]]: the classifier says 0 and 1, and is right 8 times in 10."""
    fitted = np.array([[5, 0], [2, 3]])
    assert fitted[np.arange(2), fitted.argmax(1)].sum() / fitted.sum() == 0.8
    z = np.column_stack([np.arange(400) % 2, np.zeros(400)]).astype(float)
    score = metrics.factor_vae(z, np.stack([np.arange(400) % 2, np.arange(400) // 2 % 2], 1), protocol="paper")
    votes = score.table["votes"]
    assert votes.sum() == 800
    assert score.value == votes.max(1).sum() / 800


def test_mean_differences_by_a_plain_loop(data):
    from unbraid.metrics.scores.beta_vae import PROTOCOLS, pair_differences

    z, y = data
    source, plan = fixed_factor_sampler(z, y, 0), PROTOCOLS["dlib"]
    x, k = pair_differences(source, np.random.default_rng(1), 400, plan)
    rng = np.random.default_rng(2)
    for factor in range(3):
        means = []
        for _ in range(3000):
            a = rng.integers(400)
            b = rng.choice(np.flatnonzero(y[:, factor] == y[a, factor]))
            means.append(np.abs(z[a] - z[b]))
        assert x[k == factor].mean(0) == pytest.approx(np.mean(means, 0), rel=0.1, abs=0.02)


def test_the_svm_of_dip_vae_minimises_the_hinge_loss():
    """Kumar et al. 2017, Sec. 3: hinge with C = 0.01, against a slow sub-gradient descent of the printed objective."""
    from unbraid.metrics.scores.beta_vae import svm_classifier

    rng = np.random.default_rng(0)
    x = np.abs(rng.normal(size=(300, 2)) + np.repeat([[0.0, 1.5], [1.5, 0.0]], 150, 0))
    k = np.repeat([0, 1], 150)
    _, weights = svm_classifier(x, k, x, 2, 0)
    t, features = np.where(k == 1, 1.0, -1.0), np.column_stack([x, np.ones(300)])  # its bias is penalised alike

    w = np.zeros(3)
    for step in range(4000):  # ½‖w‖² + 0.01 Σ max(0, 1 − t w·x) is 1-strongly convex: steps of 1/step arrive
        w = w - 0.5 / (step + 2) * (w - 0.01 * (t * (t * (features @ w) < 1)) @ features)
    np.testing.assert_allclose(np.abs(w[:2]), weights[:, 1], atol=0.02)
    assert np.abs(svm_classifier(x, k, x, 2, 0, "squared_hinge")[1] - weights).max() > 0.1


def test_attributes_as_printed_are_plain_accuracies_with_an_unweighted_bias():
    rng = np.random.default_rng(0)
    rare = rng.random(4000) < 0.05
    z = rng.normal(size=(4000, 2)) + 0.5 * rare[:, None]
    printed, ours = metrics.attributes(z, rare, protocol="paper"), metrics.attributes(z, rare)
    assert printed.settings["value_is"] == "accuracy"
    assert printed.value == printed.table["accuracy"][0] == pytest.approx(0.95, abs=0.01)
    assert ours.value == ours.table["balanced_accuracy"][0] == pytest.approx(0.64, abs=0.06)
    score = z @ [1.0, 1.0]
    loss = [np.maximum(0, 1 - np.where(rare, 1, -1) * (score + b)).mean() for b in np.linspace(-8, 8, 4001)]
    b = hinge_bias(score, rare, balanced=False)
    assert np.maximum(0, 1 - np.where(rare, 1, -1) * (score + b)).mean() <= min(loss) + 1e-9


def test_hinge_bias_is_the_minimum():
    rng = np.random.default_rng(0)
    score, positive = rng.normal(size=101), rng.random(101) < 0.3
    score = score + positive

    def loss(b: float) -> float:
        s, t = (score + b) / score.std(), np.where(positive, 1, -1)
        cost = np.maximum(0, 1 - t * s)
        return cost[positive].mean() + cost[~positive].mean()

    best = min(loss(b) for b in np.linspace(-5, 5, 2001))
    assert loss(hinge_bias(score, positive)) <= best + 1e-9


def test_attribute_direction_is_the_difference_of_means():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(3000, 5))
    truth = z @ [1.0, 1.0, 0, 0, 0] > 0
    score = metrics.attributes(z, truth)
    assert score.value > 0.97
    assert metrics.attributes(z, rng.permutation(truth)).value == pytest.approx(0.5, abs=0.05)


def test_reconstruction_by_hand():
    x, y = np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[0.5, 0.5], [1.0, 0.5]])
    assert metrics.reconstruction(x, y).value == pytest.approx((0.5 + 0.25) / 2)
    assert metrics.reconstruction(x, y).table["per_pixel"] == pytest.approx(0.75 / 4)
    assert metrics.reconstruction(x[:1], y[:1], kind="bernoulli").value == pytest.approx(2 * log(2))


def test_discretised_groups_and_discrete_leaves():
    tree = Latent.of({"c": onehot(3), "g": 2})
    rng = np.random.default_rng(0)
    symbol, corner = rng.integers(3, size=600), rng.integers(4, size=600)
    plane = np.stack([corner % 2, corner // 2], 1) + 0.01 * rng.normal(size=(600, 2))
    table = as_table(
        Codes(np.column_stack([np.eye(3)[symbol], plane]), tree), np.stack([symbol, corner], 1), groups="top"
    )
    sizes = discretise(table, bins=4)[1]
    assert sizes == (3, 4)
    i = mutual_information_matrix(table, bins=4)
    assert i[0, 0] == pytest.approx(slow_entropy(symbol.tolist()))
    assert i[1, 1] == pytest.approx(slow_entropy(corner.tolist()))  # neither column alone tells the corner
