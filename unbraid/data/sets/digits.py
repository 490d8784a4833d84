"""Handwritten digits that are part of scikit-learn: real images without a download (Alpaydin and Kaynak 1998)."""

from __future__ import annotations

import numpy as np

from unbraid.core.errors import expect
from unbraid.data.dataset import Dataset, Pixels, Source
from unbraid.data.factors import Factor, Factors

CITE = "Alpaydin & Kaynak 1998"


def load(*, size: int = 32) -> Dataset:
    """1,797 digits of 8×8 pixels at 17 grey levels (1.8 MB at 32×32).

    Args:
        size: side of the images in pixels; sizes other than 8 are interpolated for the nets.

    >>> data = load(size=8)
    >>> data.shape, len(data), data.factors.names
    ((1, 8, 8), 1797, ('class',))
    """
    from PIL import Image
    from sklearn.datasets import load_digits

    expect(size in (8, 16, 28, 32, 64), "digits must have one of these sizes", found=size, allowed=(8, 16, 28, 32, 64))
    grey, label = load_digits(return_X_y=True)
    images = np.rint(grey.reshape(-1, 8, 8) * (255 / 16)).astype(np.uint8)
    if size != 8:
        resampling = Image.Resampling.BICUBIC
        images = np.stack([np.asarray(Image.fromarray(image).resize((size, size), resampling)) for image in images])
    factors = Factors((Factor("class", 10, "class", tuple("0123456789")),), grid=False)
    return Dataset("digits", Pixels(images[:, None]), factors, label[:, None].astype(np.int64), cite=CITE)


SOURCE = Source(
    name="digits",
    about="real handwritten digits without a download",
    load=load,
    size="1,797 × 1×32×32 (1.8 MB)",
    factors="class 10",
    status=lambda: "ready",
    cite=CITE,
    how_to_get="part of scikit-learn",
    test=0.2,
)
