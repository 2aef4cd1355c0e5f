"""One step: from a batch to terms, gradients and parameters; the package's one backward pass.

On CUDA a step of a small network is a few hundred kernels that take less time than their launches.
`Replayed` records the step of a phase once, as a CUDA graph, and plays it back.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch
from torch import Tensor

from pellucid.training import distributed
from pellucid.training.optim import Rules, clip_gradients, has_graphs
from pellucid.training.restarts import Group, Rows, State
from pellucid.training.schedules import Phase
from pellucid.training.settings import Training

WARM = 3  # steps before a recording: libraries and optimizers set themselves up in them
KEPT = 8  # recordings; a schedule with new knobs in every epoch would pile them up


class Step:
    """Forward, backward, rules and optimizer for one group of restarts."""

    def __init__(
        self, group: Group, optimizer: torch.optim.Optimizer, rules: Rules, settings: Training
    ) -> None:
        self.group, self.optimizer, self.rules = group, optimizer, rules
        self.settings = settings

    def forward(self, x: Tensor, rows: Rows, phase: Phase) -> tuple[Tensor, State, State]:
        """The weighted sum of the terms (r,), the terms one by one, and statistics."""
        with self.settings.autocast():
            terms, stats = self.group(x, rows, phase)
        total = torch.stack([w * terms[n] for n, w in phase.weights.items() if w]).sum(0)
        return total, terms, stats

    def __call__(self, x: Tensor, rows: Rows, phase: Phase) -> tuple[State, State]:
        """Terms, "loss" among them, and statistics, of the batch as it was before the step."""
        params = self.group.params
        total, terms, stats = self.forward(x, rows, phase)
        for p in params.values():
            p.grad = None
        if total.requires_grad:  # a network without weights has nothing to learn from
            total.sum().backward()
            grads = [p.grad for p in params.values() if p.grad is not None]
            distributed.average_(grads)
            if self.settings.clip is not None and grads:
                clip_gradients(grads, self.settings.clip, self.group.leading)
            self.rules.edit_grads(params, phase)
            self.optimizer.step()
            self.rules.after_step(params, phase)
        return {"loss": total, **terms}, stats


class Recording(NamedTuple):
    """A captured step with the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    x: Tensor
    rows: Rows
    found: tuple[State, State]


class Replayed:
    """A `Step` that is recorded for every phase and shape of batch, and then played back.

    What a recording returns is overwritten by the next one: use it before.
    """

    def __init__(self, step: Step) -> None:
        self.step = step
        self.seen: dict[object, int] = {}
        self.recordings: dict[object, Recording] = {}
        self.refused = False

    def __call__(self, x: Tensor, rows: Rows, phase: Phase) -> tuple[State, State]:
        key = (tuple(x.shape), phase.name, phase.frozen, *sorted(phase.weights.items()), None,
               *sorted(phase.knobs.items()))  # fmt: skip
        self.seen[key] = self.seen.get(key, 0) + 1
        if self.refused or self.seen[key] <= WARM:
            return self.step(x, rows, phase)
        if key not in self.recordings and not self.record(key, x, rows, phase):
            return self.step(x, rows, phase)
        found = self.recordings[key]
        for mine, given in zip((found.x, *found.rows), (x, *rows), strict=True):
            mine.copy_(given)
        found.graph.replay()
        return found.found

    def record(self, key: object, x: Tensor, rows: Rows, phase: Phase) -> bool:
        """Capture the step, unless something in a user's module waits for the device."""
        while len(self.recordings) >= KEPT:
            self.recordings.pop(next(iter(self.recordings)))
        x, rows, graph = x.clone(), Rows(rows.index.clone(), rows.labels.clone()), None
        try:
            torch.cuda.synchronize()
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph, capture_error_mode="thread_local"):
                found = self.step(x, rows, phase)
        except RuntimeError:
            self.refused = True
            # A capture that failed leaves torch's generator believing that it goes on; one that
            # ends well puts that right.
            with torch.cuda.graph(torch.cuda.CUDAGraph(), capture_error_mode="thread_local"):
                torch.zeros((), device=x.device)
            return False
        self.recordings[key] = Recording(graph, x, rows, found)
        return True


def stepper(step: Step) -> Step | Replayed:
    """`step`, played back from recordings where that is exact."""
    settings = step.settings
    device = settings.torch_device()
    alone = distributed.world() == 1 and not settings.compile
    graphs = device.type == "cuda" and alone and has_graphs(settings.optimizer)
    return Replayed(step) if graphs else step


@contextmanager
def measured_kernels() -> Iterator[None]:
    """Let cuDNN measure which kernel is the fastest for a shape: all batches but one have one."""
    before = torch.backends.cudnn.benchmark
    torch.backends.cudnn.benchmark = True
    try:
        yield
    finally:
        torch.backends.cudnn.benchmark = before
