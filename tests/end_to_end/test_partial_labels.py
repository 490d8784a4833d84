"""Labels that are missing stay missing, from the data set to the scores and the report."""

from dataclasses import replace

import numpy as np

from tests.toys import toy_data
from unbraid import metrics
from unbraid.runs.evaluation.encoding import encode
from unbraid.runs.fitting.training import fit
from unbraid.runs.recipe import Recipe


def test_a_missing_label_is_no_class_of_its_own(tmp_path):
    whole = toy_data()
    labels = whole.table.copy()
    labels[::3, 0] = -1
    data = replace(whole, table=labels)
    recipe = Recipe(data="toy", latent=3, nets="small32", objective="vae", budget={"steps": 2, "batch": 16})
    run = fit(recipe, tmp_path / "run", quiet=True, dataset=data)
    encode(run, data, quiet=True)
    codes = run.codes()
    assert np.isnan(codes.values[::3, 0]).all()
    assert np.array_equal(codes.values[:, 1], labels[:, 1])
    told = replace(codes, mean=whole.table[:, [0, 1, 1]].astype(float), scale=None)
    assert metrics.informativeness(told).value > 0.95
    both = told.mean[:, :2], labels.astype(float)
    both[1][::3, 0] = np.nan
    assert metrics.mig(told.mean[:, :2], told.values).value == metrics.mig(*both).value
