"""Passes over data that train nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from pellucid.data import Batches


@contextmanager
def evaluating(module: nn.Module) -> Iterator[torch.device]:
    """Eval mode without gradients; the device of `module`."""
    was, where = module.training, next((t.device for t in module.state_dict().values()), None)
    module.eval()
    try:
        with torch.no_grad():
            yield where or torch.device("cpu")
    finally:
        module.train(was)


def stream(
    module: nn.Module, fn: Callable[[Tensor], Tensor], data: Batches, size: int = 2048
) -> Iterator[Tensor]:
    """fn(x) for the batches of `data` in order, on the module's device, in float32."""
    with evaluating(module) as device:
        for batch in data.sequential(size):
            yield fn(batch.x.to(device)).cpu()


def gather(module: nn.Module, fn: Callable[[Tensor], Tensor], data: Batches) -> Tensor:
    """All of `stream` in one tensor, (n, ...)."""
    return torch.cat(list(stream(module, fn, data)))
