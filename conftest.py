"""Doctests get a folder to write to, as `tmp`."""

import numpy
import pytest


@pytest.fixture(autouse=True)
def _doctest_names(request: pytest.FixtureRequest):
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("doctest_namespace").update(tmp=request.getfixturevalue("tmp_path"), np=numpy)
    yield
