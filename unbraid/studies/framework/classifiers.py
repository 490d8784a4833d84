"""Referees: classifiers that say what an image shows, trained on the data's own labels and never on a model's output."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from unbraid.data.dataset import Dataset


class ImageClassifier:
    """A referee for digits: one hidden layer of 100 on the pixels' leading components, with its test accuracy."""

    def __init__(self, images: np.ndarray, labels: np.ndarray, components: int = 60, seed: int = 0):
        from sklearn.decomposition import PCA
        from sklearn.neural_network import MLPClassifier
        from sklearn.pipeline import make_pipeline

        order = np.random.default_rng(seed).permutation(len(images))
        test, train = order[: len(order) // 5], order[len(order) // 5 :]
        flat = images.reshape(len(images), -1)
        net = MLPClassifier((100,), max_iter=60, early_stopping=True, random_state=seed)
        self.model = make_pipeline(PCA(min(components, flat.shape[1], len(train)), random_state=seed), net)
        with warnings.catch_warnings():  # its accuracy says whether it has learned enough
            warnings.simplefilter("ignore")
            self.model.fit(flat[train], labels[train])
        self.accuracy = float(self.model.score(flat[test], labels[test]))

    def __call__(self, images: np.ndarray) -> np.ndarray:
        """The class of each image."""
        return self.model.predict(np.asarray(images).reshape(len(images), -1))


def factor_classifier(
    dataset: Dataset, max_images: int = 8000, seed: int = 0, factor: str = "class"
) -> ImageClassifier:
    """The referee of a data set's factor, of 'class' unless another is named; trained once in a process."""
    key = (dataset.name, len(dataset), tuple(dataset.shape), max_images, seed, factor)
    if key not in _CACHE:
        assert dataset.factors is not None
        index = np.sort(np.random.default_rng(seed).permutation(len(dataset))[:max_images])
        labels: Any = dataset.labels(index)
        classes = labels[:, dataset.factors.names.index(factor)].astype(int)
        _CACHE[key] = ImageClassifier(dataset.pixels(index), classes, seed=seed)
    return _CACHE[key]


_CACHE: dict[Any, ImageClassifier] = {}
