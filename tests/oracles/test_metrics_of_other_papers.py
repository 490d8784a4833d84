"""Protocols that follow other authors' programs, against slow forms of what those programs compute."""

from math import log
from statistics import mean, median

import numpy as np
import pytest

from tests.toys import labelled_codes
from unbraid import metrics
from unbraid.codes import Codes
from unbraid.latent import Latent, onehot
from unbraid.metrics import as_table
from unbraid.metrics.estimation.information import mutual_information_matrix


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    return labelled_codes()


@pytest.fixture(scope="module")
def information(data) -> np.ndarray:
    """Plug-in information of codes in 20 bins of equal width, by scikit-learn."""
    from sklearn.metrics import mutual_info_score

    z, y = data
    bins = [np.digitize(c, np.histogram(c, 20)[1][:-1]) for c in z.T]
    return np.array([[mutual_info_score(f, b) for f in y.T] for b in bins])


def purity(row) -> float:
    p = [v / sum(row) for v in row]
    return 1 + sum(q * log(q) for q in p if q > 0) / log(len(row))


def test_med_counts_every_unit_and_its_top_k_takes_the_purest_of_each_factor(data, information):
    z, y = data
    r = information / information.sum(0)
    expected = sum(sum(row) * purity(row) for row in r) / r.sum()
    score = metrics.med(z, y, protocol="paper")
    assert score.value == pytest.approx(expected)
    complete = sum(sum(column) * purity(column) for column in r.T) / r.sum()
    assert score.table["completeness"] == pytest.approx(complete)
    chosen = []
    for k in range(3):
        own = [u for u in range(4) if max(range(3), key=lambda j, u=u: r[u, j]) == k]
        chosen += sorted(own, key=lambda u: -purity(r[u]))[:1]
    assert len(chosen) == 3
    top = sum(sum(r[u]) * purity(r[u]) for u in chosen) / r[chosen].sum()
    assert metrics.med(z, y, protocol="paper", top=1).value == pytest.approx(top)


def test_mig_sup_with_units_whose_means_vary(data, information):
    from scipy.stats import entropy

    z, y = data
    small = z * [1, 1, 0.05, 1]  # the third column has a variance of 0.0025, below 0.01
    n = information / [entropy(np.bincount(f)) for f in y.T]
    gaps = [sorted(row)[-1] - sorted(row)[-2] for row in n]
    assert metrics.mig_sup(small, y, protocol="paper").value == pytest.approx(mean(gaps[u] for u in (0, 1, 3)))
    assert metrics.mig_sup(z, y, protocol="paper").value == pytest.approx(mean(gaps))
    scaled = Codes(z, Latent.of(4), scale=np.full(z.shape, 0.1))
    assert metrics.mig_sup(scaled, y, protocol="paper").settings["estimator"] == "posterior"


def test_irs_of_the_paper_takes_the_farthest_row(data):
    z, y = data
    scores, weights = [], []
    for c in z.T:
        farthest = max(abs(c - c.mean()))
        far = [mean(max(abs(c[f == v] - c[f == v].mean())) for v in set(f.tolist())) for f in y.T]
        scores.append(1 - min(far) / farthest)
        weights.append(farthest)
    assert metrics.irs(z, y, protocol="paper").value == pytest.approx(np.average(scores, weights=weights))
    assert metrics.irs(z, y, protocol="dlib", quantile=1.0).value == metrics.irs(z, y, protocol="paper").value


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_explicitness_of_the_paper_is_the_auc_of_the_rows_fitted(data):
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import roc_auc_score

    z, y = data
    scaled = (z - z.mean(0)) / z.std(0)
    areas = []
    for f in y.T:
        p = LogisticRegression(C=1e10).fit(scaled, f).predict_proba(scaled)
        areas.append(mean(roc_auc_score(f == v, p[:, v]) for v in range(p.shape[1])))
    score = metrics.explicitness(z, y, protocol="paper")
    assert score.value == pytest.approx(mean(areas), abs=1e-6)
    assert score.settings["unit"] == "AUC"


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_info_mec_of_the_paper(data):
    """10 neighbours; ranges above a twentieth of the widest; regressions with balanced classes on the rows fitted."""
    from scipy.stats import entropy
    from sklearn.feature_selection import mutual_info_classif
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import log_loss

    z, y = data
    wide = np.column_stack([z, 0.01 * z[:, 0]])  # a fifth column that hardly moves is inactive
    scaled = (wide - wide.mean(0)) / wide.std(0)
    n = np.array(
        [mutual_info_classif(scaled, f, n_neighbors=10, random_state=0) / entropy(np.bincount(f)) for f in y.T]
    )
    n = n[:, :4]
    m = (mean(max(c) / sum(c) for c in n.T) - 1 / 3) / (1 - 1 / 3)
    c = (mean(max(r) / sum(r) for r in n) - 1 / 4) / (1 - 1 / 4)
    e = []
    for f in y.T:
        seen = LogisticRegression(C=1e10, class_weight="balanced").fit(scaled, f).predict_proba(scaled)
        blind = LogisticRegression(C=1e10, class_weight="balanced").fit(0 * scaled, f).predict_proba(0 * scaled)
        e.append(1 - log_loss(f, seen) / log_loss(f, blind))
    score = metrics.info_mec(wide, y, protocol="paper")
    assert score.table["active"].tolist() == [True] * 4 + [False]
    # ties are broken by other tiny noise there; z₁ and z₃ of this data have ties
    assert score.value == pytest.approx(m, abs=0.02)
    assert score.table["compactness"] == pytest.approx(c, abs=0.02)
    assert score.table["explicitness"] == pytest.approx(mean(e), abs=0.005)


def test_discrete_units_are_counted_where_real_ones_are_measured_by_neighbours():
    rng = np.random.default_rng(0)
    symbol = rng.integers(3, size=300)
    codes = Codes(np.column_stack([np.eye(3)[symbol], rng.normal(size=300)]), Latent.of({"c": onehot(3), "z": 1}))
    table = as_table(codes, symbol)
    assert mutual_information_matrix(table, "knn", n_neighbours=10)[0, 0] == pytest.approx(
        mutual_information_matrix(table)[0, 0]
    )
    assert mutual_information_matrix(table, "knn", n_neighbours=10)[1, 0] != mutual_information_matrix(table)[1, 0]


def slow_udr(r: np.ndarray, average: str) -> float:
    rows = [max(row) ** 2 / sum(row) if sum(row) > 0 else 0.0 for row in r]
    columns = [max(column) ** 2 / sum(column) if sum(column) > 0 else 0.0 for column in r.T]
    return mean(rows + columns) if average == "columns" else (mean(rows) + mean(columns)) / 2


@pytest.mark.parametrize("similarity", ["lasso", "spearman"])
@pytest.mark.parametrize("average", ["columns", "models"])
def test_udr_of_three_models_by_loops(similarity, average):
    """Uninformative columns are left out of every sum, each model is predicted from its partners, medians over them."""
    from scipy.stats import spearmanr
    from sklearn.linear_model import Lasso

    rng = np.random.default_rng(0)
    a = rng.normal(size=(400, 3))
    b = a @ rng.normal(size=(3, 3)) + 0.3 * rng.normal(size=(400, 3))
    c = np.column_stack([-a[:, 1], a[:, 0] + a[:, 2]])
    kls = [np.array([1.0, 2.0, 0.001]), np.array([0.5, 0.5, 0.5]), np.array([1.0, 1.0])]
    runs = [Codes(x, Latent.of(x.shape[1]), kl=k) for x, k in zip((a, b, c), kls, strict=True)]
    kept = [(x - x.mean(0)) / x.std(0) for x in (a[:, :2], b, c)]
    pair = np.zeros((3, 3))
    for i in range(3):
        for j in range(3):
            if similarity == "lasso":
                r = np.abs(Lasso(alpha=0.1).fit(kept[i], kept[j]).coef_).T
            else:
                r = np.array([[abs(spearmanr(u, v).statistic) for v in kept[j].T] for u in kept[i].T])
            pair[i, j] = slow_udr(r, average)
    scores = [median(pair[i, j] for i in range(3) if i != j) for j in range(3)]
    found = metrics.udr(runs, similarity=similarity, average=average)
    assert found.table["models"] == pytest.approx(scores)
    assert found.value == pytest.approx(mean(scores))
    assert found.table["informative"] == [2, 3, 2]
