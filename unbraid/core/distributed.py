"""Training on several processes started by torchrun: rank, process group and collectives.

Each rank encodes and decodes its rows of the global batch, and `all_gather_rows` collects the rows of all ranks, with
gradient. Terms, random numbers and the ledger are therefore those of one process that trains the whole batch. The loss is
the mean of the ranks' losses, and `average_gradients` averages gradients accordingly. Without torchrun, and outside
`collective_scope`, every function returns its input.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from unbraid.core.errors import UnbraidError, expect

Rows = TypeVar("Rows", bound=Any)


class RankLostError(UnbraidError):
    """Another rank has died or cannot be reached."""


@dataclass(frozen=True)
class RankInfo:
    """The rank of this process; a single process is rank 0 of 1.

    Args:
        rank: the number of this process.
        size: the number of processes.
        device: the device of this process, or None before the group is formed.
    """

    rank: int = 0
    size: int = 1
    device: torch.device | None = None


SINGLE_RANK = RankInfo()
JOIN_TIMEOUT = timedelta(minutes=30)  # for ranks that prepare their data first
_GROUP_NUMBERS = itertools.count()  # of the groups that this process joins; all ranks count alike
CONTINUE, STOP, FINISHED = range(3)  # what ranks agree on after a step; the largest value of any rank holds
_GROUP: ContextVar[RankInfo] = ContextVar("group", default=SINGLE_RANK)  # set by `process_group`
_ACTIVE: ContextVar[RankInfo] = ContextVar("active", default=SINGLE_RANK)  # set by `collective_scope`


def torchrun_rank_info() -> RankInfo:
    """Read rank and size from the environment of torchrun; without torchrun a single rank."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return SINGLE_RANK
    return RankInfo(int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))


def group_rank_info() -> RankInfo:
    """The process group that this process currently belongs to."""
    return _GROUP.get()


@contextmanager
def process_group(device: torch.device) -> Iterator[RankInfo]:
    """Join the ranks that torchrun started, by gloo on the CPU and by nccl on GPUs.

    Args:
        device: the device of this rank.
    """
    found = torchrun_rank_info()
    if found.size == 1:
        yield SINGLE_RANK
        return
    world = RankInfo(found.rank, found.size, device)
    try:
        store, rank, size = next(dist.rendezvous("env://"))
        store.set_timeout(JOIN_TIMEOUT)
        # The store outlives a group: without keys of its own, a second group would read the addresses of the first.
        own_keys = dist.PrefixStore(f"unbraid {next(_GROUP_NUMBERS)}", store)
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo", store=own_keys, rank=rank, world_size=size)
    except RuntimeError as error:
        raise RankLostError(
            f"rank {world.rank} of {world.size} cannot reach the others: {_first_line(error)}"
        ) from error
    token = _GROUP.set(world)
    try:
        yield world
    finally:
        _GROUP.reset(token)
        dist.destroy_process_group()


def rank_device(device: torch.device) -> torch.device:
    """The device of this rank: on a machine with GPUs, one GPU per rank.

    Args:
        device: the device of the recipe.
    """
    if torchrun_rank_info().size == 1 or device.type == "cpu":
        return device
    expect(
        device.type == "cuda" and device.index is None,
        "several ranks share a CPU or use one GPU each",
        found=f"device {str(device)!r}",
        allowed=["auto", "cpu", "cuda"],
    )
    local = int(os.environ.get("LOCAL_RANK", 0))
    expect(
        local < torch.cuda.device_count(),
        "each rank needs a GPU of its own",
        found=f"{torch.cuda.device_count()} on this machine, {os.environ.get('LOCAL_WORLD_SIZE', '?')} ranks",
        do="Lower --nproc-per-node, or set budget.device=cpu.",
    )
    torch.cuda.set_device(local)
    return torch.device("cuda", local)


@contextmanager
def collective_scope() -> Iterator[None]:
    """Mark code that all ranks of the group run at the same time; the functions below communicate only inside it."""
    token = _ACTIVE.set(_GROUP.get())
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def local_rows(rows: Rows) -> Rows:
    """This rank's part of the global batch, which is split into equal parts.

    Args:
        rows: the global batch.
    """
    return rows if _ACTIVE.get().size == 1 else rows[local_slice(len(rows))]


def local_slice(count: int) -> slice:
    """Which of `count` rows of the global batch are this rank's.

    Args:
        count: the rows of the global batch.
    """
    world = _ACTIVE.get()
    each = count // world.size
    return slice(world.rank * each, (world.rank + 1) * each) if world.size > 1 else slice(0, count)


def all_gather_rows(rows: Tensor) -> Tensor:
    """The rows of all ranks, in order; gradients of a rank's rows are summed over the losses of all ranks.

    Args:
        rows: the rows of this rank.
    """
    world = _ACTIVE.get()
    return rows if world.size == 1 else _Gather.apply(rows, world)


def map_rows(function: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """Apply a row-wise function with the work split over the ranks.

    Args:
        function: maps rows to as many rows.
        rows: the global batch.
    """
    return all_gather_rows(function(local_rows(rows)))


def average_gradients(parameters: Iterable[Tensor]) -> None:
    """Replace every gradient by its mean over the ranks, in one message.

    Args:
        parameters: the parameters whose gradients are averaged.
    """
    world = _ACTIVE.get()
    if world.size == 1:
        return
    found = [p.grad for p in parameters if p.grad is not None]
    flat = _all_reduce(torch.cat([g.reshape(-1) for g in found]), "sum") / world.size
    for gradient, part in zip(found, flat.split([g.numel() for g in found]), strict=True):
        gradient.copy_(part.view(gradient.shape))


def all_reduce_max(value: int) -> int:
    """The largest value of any rank in the group; all ranks wait for each other.

    Args:
        value: the value of this rank, such as `STOP`.
    """
    world = _GROUP.get()
    return value if world.size == 1 else int(_all_reduce(torch.tensor([value], device=world.device), "max"))


def broadcast_bytes(payload: bytes = b"") -> bytes:
    """Send bytes from rank 0 to all ranks and return them.

    Args:
        payload: the bytes; ignored on other ranks.
    """
    world = _GROUP.get()
    size = _broadcast(torch.tensor([len(payload)], device=world.device))
    if not int(size):
        return b""
    buffer = bytearray(payload) if world.rank == 0 else bytearray(int(size))
    return _broadcast(torch.frombuffer(buffer, dtype=torch.uint8).to(world.device)).cpu().numpy().tobytes()


class _Gather(torch.autograd.Function):
    """All-gather with its own backward pass, so that a lost rank raises `RankLostError` there too."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, world: RankInfo) -> Tensor:
        ctx.world = world  # on a GPU the backward pass runs in another thread, without the context variable
        return _all_gather(rows.contiguous())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        whole = _all_reduce(grads[0].contiguous(), "sum")
        each = len(whole) // ctx.world.size
        return whole[ctx.world.rank * each : (ctx.world.rank + 1) * each], None


def _all_gather(rows: Tensor) -> Tensor:
    module = _collectives()
    call = getattr(module, "all_gather_single", None) or module.all_gather_tensor  # its name before torch 2.13
    return _collective(call, rows, gather_dim=0)


def _all_reduce(whole: Tensor, op: str) -> Tensor:
    return _collective(_collectives().all_reduce, whole, reduceOp=op)


def _broadcast(whole: Tensor) -> Tensor:
    return _collective(_collectives().broadcast, whole, src=0)


def _collectives() -> Any:
    """Import on first use: the module takes 0.2 s to import."""
    from torch.distributed import _functional_collectives

    return _functional_collectives


def _collective(call: Callable[..., Tensor], tensor: Tensor, **options: Any) -> Tensor:
    """Run one collective and wait for it; a failure means that another rank is lost."""
    try:
        return _collectives().wait_tensor(call(tensor, group=dist.group.WORLD, **options))
    except RuntimeError as error:
        raise RankLostError(f"another rank of this run is gone ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
