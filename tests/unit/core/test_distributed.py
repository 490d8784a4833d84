"""Without torchrun, and outside of `together`, ranks do nothing; what several do is in tests/end_to_end/test_ranks.py."""

from __future__ import annotations

import pytest
import torch

from unbraid.core import distributed
from unbraid.core.errors import UnbraidError


def test_alone_everything_gives_back_what_it_got():
    rows = torch.randn(4, 2, requires_grad=True)
    rows.square().sum().backward()
    before = rows.grad.clone()
    with distributed.process_group(torch.device("cpu")) as world, distributed.collective_scope():
        assert (world.rank, world.size) == (0, 1)
        assert distributed.local_rows(rows) is rows
        assert distributed.all_gather_rows(rows) is rows
        assert distributed.map_rows(lambda r: r, rows) is rows
        distributed.average_gradients([rows])
        assert distributed.all_reduce_max(distributed.STOP) == distributed.STOP
    assert torch.equal(rows.grad, before)


def test_mine_is_this_ranks_equal_part():
    token = distributed._ACTIVE.set(distributed.RankInfo(1, 3))
    try:
        assert distributed.local_rows(list(range(12))) == [4, 5, 6, 7]
    finally:
        distributed._ACTIVE.reset(token)


@pytest.mark.parametrize("name", ["cuda:1", "mps"])
def test_a_device_that_ranks_would_share_is_refused(name, monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "here")
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(UnbraidError, match="several ranks share a CPU or use one GPU each"):
        distributed.rank_device(torch.device(name))


def test_one_rank_of_torchrun_is_one_process(monkeypatch):
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "here")
    monkeypatch.setenv("WORLD_SIZE", "1")
    with distributed.process_group(torch.device("cpu")) as world:
        assert world is distributed.SINGLE_RANK
