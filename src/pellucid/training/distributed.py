"""Several processes under torchrun; the only file that knows torch.distributed."""

from __future__ import annotations

import os
from collections.abc import Iterator
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


@contextmanager
def processes() -> Iterator[None]:
    """Join the processes that torchrun started, if it did and nobody else has."""
    launched = int(os.environ.get("WORLD_SIZE", "1")) > 1 and "RANK" in os.environ
    if not launched or not dist.is_available() or dist.is_initialized():
        yield
        return
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    try:
        yield
    finally:
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
