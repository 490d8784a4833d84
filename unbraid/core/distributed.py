"""One run over several processes, as torchrun starts them: who we are, and the few things that ranks do together.

Each rank encodes and decodes its rows of the global batch, and `gather` makes them the rows of all, with gradient. So every
term, all chance and the ledger are those of one run of that batch, however many ranks there are, and the loss of the run is
the mean of the ranks' losses: `average` reduces gradients by that. Without torchrun, and outside of `together`, each of these
gives back what it got.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from unbraid.core.errors import UnbraidError, expect

Rows = TypeVar("Rows", bound=Any)


class RankLostError(UnbraidError):
    """Another rank is gone, or cannot be reached."""


@dataclass(frozen=True)
class RankInfo:
    """Which of how many ranks this process is; alone it is rank 0 of 1."""

    rank: int = 0
    size: int = 1
    device: torch.device | None = None


SINGLE_RANK = RankInfo()
CONTINUE, STOP, FINISHED = (
    0,
    1,
    2,
)  # what ranks agree on after a step: asked to stop, or at the end before the last step
_GROUP: ContextVar[RankInfo] = ContextVar("linked", default=SINGLE_RANK)  # by `joined`
_ACTIVE: ContextVar[RankInfo] = ContextVar("world", default=SINGLE_RANK)  # by `together`


def torchrun_rank_info() -> RankInfo:
    """What torchrun says in the environment; alone without it."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return SINGLE_RANK
    return RankInfo(int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))


def group_rank_info() -> RankInfo:
    """The ranks that this process trains with at present."""
    return _GROUP.get()


@contextmanager
def process_group(device: torch.device) -> Iterator[RankInfo]:
    """The ranks that torchrun started, linked by gloo on the CPU and by nccl on GPUs."""
    found = torchrun_rank_info()
    if found.size == 1:
        yield SINGLE_RANK
        return
    world = RankInfo(found.rank, found.size, device)
    try:
        dist.init_process_group("nccl" if device.type == "cuda" else "gloo")
    except RuntimeError as error:
        raise RankLostError(f"rank {world.rank} of {world.size} finds no other: {_first_line(error)}") from error
    token = _GROUP.set(world)
    try:
        yield world
    finally:
        _GROUP.reset(token)
        dist.destroy_process_group()


def rank_device(device: torch.device) -> torch.device:
    """The device of this rank: each its own GPU."""
    if torchrun_rank_info().size == 1 or device.type == "cpu":
        return device
    expect(
        device.type == "cuda" and device.index is None,
        "several ranks share a CPU or take a GPU each",
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
    """A stretch of code that all linked ranks run at the same time: what is below acts in it."""
    token = _ACTIVE.set(_GROUP.get())
    try:
        yield
    finally:
        _ACTIVE.reset(token)


def local_rows(rows: Rows) -> Rows:
    """This rank's rows of the global batch: the rank-th of as many equal parts as there are ranks."""
    return rows if _ACTIVE.get().size == 1 else rows[local_slice(len(rows))]


def local_slice(count: int) -> slice:
    """Which of `count` rows of the global batch are this rank's."""
    world = _ACTIVE.get()
    each = count // world.size
    return slice(world.rank * each, (world.rank + 1) * each) if world.size > 1 else slice(0, count)


def all_gather_rows(rows: Tensor) -> Tensor:
    """The rows of all ranks, in order; the gradient of a rank's rows is summed over the losses of all."""
    world = _ACTIVE.get()
    return rows if world.size == 1 else _Gather.apply(rows, world)


def map_rows(function: Callable[[Tensor], Tensor], rows: Tensor) -> Tensor:
    """`work(rows)`, row by row, each rank its own."""
    return all_gather_rows(function(local_rows(rows)))


def average_gradients(parameters: Iterable[Tensor]) -> None:
    """Put the mean over ranks in the place of every gradient, in one message."""
    world = _ACTIVE.get()
    if world.size == 1:
        return
    found = [p.grad for p in parameters if p.grad is not None]
    flat = _all_reduce(torch.cat([g.reshape(-1) for g in found]), "sum") / world.size
    for gradient, part in zip(found, flat.split([g.numel() for g in found]), strict=True):
        gradient.copy_(part.view(gradient.shape))


def all_reduce_max(value: int) -> int:
    """The largest word that any linked rank says: one of those below; all wait for each other."""
    world = _GROUP.get()
    return value if world.size == 1 else int(_all_reduce(torch.tensor([value], device=world.device), "max"))


def broadcast_bytes(payload: bytes = b"") -> bytes:
    """What rank 0 tells the others."""
    world = _GROUP.get()
    size = _broadcast(torch.tensor([len(payload)], device=world.device))
    if not int(size):
        return b""
    words = bytearray(payload) if world.rank == 0 else bytearray(int(size))
    return _broadcast(torch.frombuffer(words, dtype=torch.uint8).to(world.device)).cpu().numpy().tobytes()


class _Gather(torch.autograd.Function):
    """The functional collectives, with the way back written out: it must say a lost rank as the way forth does."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, world: RankInfo) -> Tensor:
        ctx.world = world  # on a GPU the way back runs in another thread, where the context is not
        return _all_gather(rows.contiguous())

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None]:
        whole = _all_reduce(grads[0].contiguous(), "sum")
        each = len(whole) // ctx.world.size
        return whole[ctx.world.rank * each : (ctx.world.rank + 1) * each], None


def _all_gather(rows: Tensor) -> Tensor:
    known = _collectives()
    call = getattr(known, "all_gather_single", None) or known.all_gather_tensor  # its name before torch 2.13
    return _collective(call, rows, gather_dim=0)


def _all_reduce(whole: Tensor, op: str) -> Tensor:
    return _collective(_collectives().all_reduce, whole, reduceOp=op)


def _broadcast(whole: Tensor) -> Tensor:
    return _collective(_collectives().broadcast, whole, src=0)


def _collectives() -> Any:
    """Fetched when it is needed: it takes 0.2 s to import."""
    from torch.distributed import _functional_collectives

    return _functional_collectives


def _collective(call: Callable[..., Tensor], *given: Any, **named: Any) -> Tensor:
    """One collective, waited for; what goes wrong is that another rank is gone."""
    try:
        return _collectives().wait_tensor(call(*given, group=dist.group.WORLD, **named))
    except RuntimeError as error:
        raise RankLostError(f"another rank of this run is gone ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:200] if str(error).strip() else type(error).__name__
