"""Samples per second: the engine beside the same network in a plain PyTorch loop, interleaved.

Plain is what a tutorial has: float32, eager, a ``DataLoader`` over a ``TensorDataset``. Both sides
train on the same rows in turn, one epoch each, so that whatever else the machine does hits both.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

from benchmarks import records
from benchmarks.data import load
from pellucid import MLP, Centers, Conv, Training
from pellucid.algorithms.tell import TELLModule, schedule
from pellucid.data import Batches, open_data
from pellucid.nn import ClusterLayer
from pellucid.training import Engine, Phase, Schedule, Seeds, Single
from pellucid.training.centers import center_rules

BATCH, K, WEIGHT = 256, 10, 0.01 / 10  # Section 1.3 of the published runs: 0.01 / k
OPTIMIZERS = {"adam": torch.optim.Adam, "adadelta": torch.optim.Adadelta}
SPECS: dict[str, tuple[Any, float]] = {"mlp": (MLP(), 2.5), "conv": (Conv(), 2.0)}  # and its bar
EPOCHS = 100_000  # more than are ever asked for


@dataclass(frozen=True)
class Case:
    """One comparison."""

    network: str
    optimizer: str
    objective: str  # "reconstruction" or "joint"

    def schedule(self) -> Schedule:
        """The engine's plan: reconstruction alone, or TELL's alternation."""
        only = Phase({"reconstruction": 1.0}, name="pretrain")
        turn = schedule(WEIGHT, Centers())
        return turn if self.objective == "joint" else lambda _: only


CASES = [
    Case(network, optimizer, objective)
    for network in SPECS
    for optimizer in OPTIMIZERS
    for objective in ("reconstruction", "joint")
]


def measure(folder: Path | None, out: Path, rows: int, repeats: int, only: list[str]) -> int:
    """Run every case, record and print it; 1 when a bar is missed."""
    X, missed = load("mnist", folder).X[:rows], 0
    surroundings = records.surroundings()
    print(f"{'':<32}{'plain /s':>10}{'ours /s':>10}{'ratio':>8}{'core':>8}{'bar':>6}")
    for case in CASES:
        if only and case.network not in only:
            continue
        line = compare(case, X, repeats) | {"rows": rows, "repeats": repeats} | surroundings
        records.append(out / "speed" / "runs.jsonl", [line])
        missed += not line["reached"]
        name = f"{case.network}, {case.optimizer}, {case.objective}"
        numbers = f"{line['plain']:>10.0f}{line['ours']:>10.0f}{line['ratio']:>8.2f}"
        core = f"{line['ratio_of_core_time']:>8.2f}"
        print(f"{name:<32}{numbers}{core}{line['bar']:>6}", flush=True)
    return int(missed > 0)


def compare(case: Case, X: Any, repeats: int) -> records.Line:
    """Epochs of both in turn after one of each to warm up; medians."""
    data = open_data(X if case.network == "conv" else X.reshape(len(X), -1), batch_size=BATCH)
    sides = {"plain": plain(case, data), "ours": ours(case, data)}
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in sides}
    for repeat in range(-2, 2 * repeats):  # pairs: the alternation has two kinds of epochs
        for name, epochs in sides.items():
            started = time.perf_counter(), time.process_time()
            next(epochs)
            if repeat >= 0:
                wall = time.perf_counter() - started[0]
                rates[name].append((data.n / wall, data.n / (time.process_time() - started[1])))
    ratio, bar = ratio_of(rates, 0), SPECS[case.network][1]
    return {
        "case": vars(case),
        **{name: round(median(wall for wall, _ in values), 1) for name, values in rates.items()},
        "ratio": round(ratio, 3),
        "ratio_of_core_time": round(ratio_of(rates, 1), 3),  # what a busy machine disturbs less
        "bar": bar,
        "reached": ratio >= bar,
        "rates": {name: [round(wall, 1) for wall, _ in values] for name, values in rates.items()},
    }


def ratio_of(rates: dict[str, list[tuple[float, float]]], clock: int) -> float:
    """Median over the pairs of epochs, by the wall clock or by core time."""
    pairs = zip(rates["ours"], rates["plain"], strict=True)
    return median(a[clock] / b[clock] for a, b in pairs)


def network_of(case: Case, data: Batches) -> nn.Module:
    """The same network for both."""
    return SPECS[case.network][0].build(data.shape, True)


def ours(case: Case, data: Batches) -> Iterator[Any]:
    """Epochs of the engine."""
    seeds, rules = Seeds(0), center_rules(Centers())
    module = TELLModule(network_of(case, data), ClusterLayer(K, 10), "mean", None)
    engine = Engine(Training(case.optimizer), seeds, data.n)
    group = engine.begin(Single(module, 0, engine.settings))
    yield from engine.epochs(group, data, case.schedule(), rules, stop=EPOCHS)


def plain(case: Case, data: Batches) -> Iterator[Any]:
    """Epochs of the tutorial's loop."""
    network = network_of(case, data)
    centers = nn.Parameter(F.normalize(torch.randn(K, 10)))
    x = torch.cat([batch.x for batch in data.sequential()])
    loader = DataLoader(TensorDataset(x), batch_size=BATCH, shuffle=True)
    optimizer = OPTIMIZERS[case.optimizer](network.parameters())
    loss: Callable[[nn.Module, Tensor, Tensor, bool], Tensor] = (
        joint_loss if case.objective == "joint" else reconstruction_loss
    )
    for epoch in range(EPOCHS):
        for (batch,) in loader:
            optimizer.zero_grad()
            loss(network, centers, batch, epoch % 2 == 0).backward()
            optimizer.step()
            if centers.grad is not None:
                step_centers(centers)
        yield epoch


def reconstruction_loss(network: Any, centers: Tensor, x: Tensor, even: bool) -> Tensor:
    """Mean squared error."""
    return F.mse_loss(network.decode(F.normalize(network.encode(x))), x)


def joint_loss(network: Any, centers: Tensor, x: Tensor, even: bool) -> Tensor:
    """Eq. 15: the centres see it in even epochs, the encoder in odd ones."""
    z = F.normalize(network.encode(x))
    gap = 2 - 2 * ((z.detach() @ centers.T) if even else (z @ centers.detach().T))
    return F.mse_loss(network.decode(z), x) + WEIGHT * gap.min(1).values.mean()


@torch.no_grad()
def step_centers(centers: Tensor) -> None:
    """Section 2.2.3: 10% of the centre's length along its gradient, and back on the sphere."""
    assert centers.grad is not None
    centers.sub_(0.1 * F.normalize(centers.grad))
    centers.copy_(F.normalize(centers))
    centers.grad = None
