"""Several processes under torchrun; the only file that knows torch.distributed."""

from __future__ import annotations

import atexit
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch import distributed as dist


def rank() -> int:
    """This process's number, 0 when there is one."""
    return dist.get_rank() if dist.is_available() and dist.is_initialized() else 0


def world() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_available() and dist.is_initialized() else 1


def accelerator() -> torch.device:
    """CUDA where there is any, for each process of a machine a device of its own."""
    if not torch.cuda.is_available():
        return torch.device("cpu")
    if int(os.environ.get("WORLD_SIZE", "1")) > 1:
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cuda")


@contextmanager
def processes() -> Iterator[None]:
    """Join the processes that torchrun started, if it did and nobody else has.

    Once joined they stay so until the interpreter ends: a second meeting over torchrun's store
    finds the addresses of the first and fails, and a script may fit twice.
    """
    launched = int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ
    if launched and dist.is_available() and not dist.is_initialized():
        dist.init_process_group("cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo")
        atexit.register(leave)
    yield


def leave() -> None:
    """Leave the processes joined."""
    if dist.is_initialized():
        dist.destroy_process_group()


def average_(tensors: list[Tensor]) -> None:
    """Replace each tensor by its mean over the processes (batches are split evenly)."""
    if world() == 1 or not tensors:
        return
    flat = torch.cat([t.reshape(-1) for t in tensors])
    dist.all_reduce(flat)
    flat /= world()
    for t, mean in zip(tensors, flat.split([t.numel() for t in tensors]), strict=True):
        t.copy_(mean.view_as(t))


def largest_(tensor: Tensor) -> Tensor:
    """Elementwise maximum over the processes, in place."""
    if world() > 1:
        dist.all_reduce(tensor, op=dist.ReduceOp.MAX)
    return tensor


def total_(tensor: Tensor) -> Tensor:
    """Elementwise sum over the processes, in place."""
    if world() > 1:
        dist.all_reduce(tensor)
    return tensor


def same_(tensors: Iterable[Tensor]) -> None:
    """Replace each tensor by the one that the first process has."""
    if world() > 1:
        for t in tensors:
            dist.broadcast(t.detach(), 0)


def largest(value: int) -> int:
    """The largest of the processes' values."""
    return int(largest_(torch.tensor(value)))
