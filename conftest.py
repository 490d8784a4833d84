"""Options and names that tests and doctests share: `--quick-contracts`, and `tmp` and `np` in doctests."""

from pathlib import Path

import numpy
import pytest

CONTRACTS = Path(__file__).parent / "tests" / "contracts"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--quick-contracts", action="store_true", help="run only the first case of each contract test")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if not config.getoption("--quick-contracts"):
        return
    seen: set[str] = set()
    later = []
    for item in items:
        name = item.nodeid.partition("[")[0]
        if CONTRACTS in item.path.parents and name in seen:
            later.append(item)
        seen.add(name)
    config.hook.pytest_deselected(items=later)
    items[:] = [item for item in items if item not in later]


@pytest.fixture(autouse=True)
def _doctest_names(request: pytest.FixtureRequest):
    if isinstance(request.node, pytest.DoctestItem):
        request.getfixturevalue("doctest_namespace").update(tmp=request.getfixturevalue("tmp_path"), np=numpy)
    yield
