"""Image classifiers for evaluation, trained on the labels of the data and never on generated images."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from unbraid.data.dataset import Dataset


class ImageClassifier:
    """Classifier with one hidden layer of 100 units on the leading principal components of the pixels.

    Args:
        images: training and test images "n c h w"; a fifth is held out.
        labels: class of each image.
        components: number of principal components.
        seed: seed of the split and of the fit.
    """

    def __init__(self, images: np.ndarray, labels: np.ndarray, components: int = 60, seed: int = 0):
        from sklearn.decomposition import PCA
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline

        order = np.random.default_rng(seed).permutation(len(images))
        test, train = order[: len(order) // 5], order[len(order) // 5 :]
        flat = images.reshape(len(images), -1)
        net = MLPClassifier((100,), max_iter=60, early_stopping=True, random_state=seed)
        self.model = make_pipeline(PCA(min(components, flat.shape[1], len(train)), random_state=seed), net)
        with warnings.catch_warnings():  # convergence warnings: the accuracy shows whether the fit is good enough
            warnings.simplefilter("ignore")
            self.model.fit(flat[train], labels[train])
        self.accuracy = float(self.model.score(flat[test], labels[test]))

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """Predict the class of each image."""
        return self.model.predict(np.asarray(images).reshape(len(images), -1))


def factor_classifier(
    dataset: Dataset, max_images: int = 8000, seed: int = 0, factor: str = "class"
) -> ImageClassifier:
    """Return the classifier of one factor of a data set; it is trained once per process.

    Args:
        dataset: a data set with labels.
        max_images: number of images for training and test.
        seed: seed of the selection and of the fit.
        factor: name of the factor.
    """
    key = (dataset.name, len(dataset), tuple(dataset.shape), max_images, seed, factor)
    if key not in _CACHE:
        assert dataset.factors is not None
        index = np.sort(np.random.default_rng(seed).permutation(len(dataset))[:max_images])
        labels: Any = dataset.labels(index)
        classes = labels[:, dataset.factors.names.index(factor)].astype(int)
        _CACHE[key] = ImageClassifier(dataset.pixels(index), classes, seed=seed)
    return _CACHE[key]


_CACHE: dict[Any, ImageClassifier] = {}
