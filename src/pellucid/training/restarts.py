"""One restart, or a stack of them, behind one interface.

Both take batches with the restart axis in front, ``x (r, b, *shape)``, and return every term and
statistic with it; `rows` say which they are. Restart i of a stack equals restart i alone for elementwise optimizers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import deepcopy
from typing import Any, NamedTuple, TypeAlias

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from pellucid.training.schedules import Phase
from pellucid.training.settings import Training
from pellucid.typing import Params

State: TypeAlias = dict[str, Tensor]


class Rows(NamedTuple):
    """Which rows a batch holds, and the cluster that each had when it was last seen (or -1)."""

    index: Tensor  # (b,) or (r, b)
    labels: Tensor  # the same


SMALL = 200_000  # weights; below, a CPU or GPU spends its time on launches and a stack pays


class Single:
    """One module as a group of one restart."""

    leading = 0

    def __init__(self, module: nn.Module, index: int, settings: Training) -> None:
        self.module = module.to(settings.torch_device())
        self.indices = [index]
        self.params: Params = dict(self.module.named_parameters())
        self.call = torch.compile(self.module) if settings.compile else self.module

    def __call__(self, x: Tensor, rows: Rows, phase: Phase) -> tuple[State, State]:
        one = Rows(rows.index[0], rows.labels[0])
        terms, stats = self.call(x[0], one, phase)
        return {n: t[None] for n, t in terms.items()}, {n: s[None] for n, s in stats.items()}

    def enter(self, phase: Phase) -> None:
        """Training mode; frozen parts get no gradient and keep their running statistics."""
        self.module.train()
        for name, part in self.module.named_modules():
            if is_frozen(name, phase):
                part.eval()
        for name, p in self.params.items():
            p.requires_grad_(not is_frozen(name, phase))

    @contextmanager
    def member(self, r: int) -> Iterator[nn.Module]:
        """The module of restart `r`, to look at or to edit."""
        yield self.module

    def state(self, r: int) -> State:
        """A copy of restart `r`'s state."""
        return {n: t.detach().clone() for n, t in self.module.state_dict().items()}

    def state_dict(self) -> State:
        return self.module.state_dict()

    def load_state_dict(self, state: State) -> None:
        self.module.load_state_dict(state)


class Stacked:
    """Several modules of one shape, trained in one go through ``torch.func.vmap``."""

    leading = 1

    def __init__(
        self, modules: Sequence[nn.Module], indices: Sequence[int], settings: Training
    ) -> None:
        device = settings.torch_device()
        self.spare = deepcopy(modules[0]).to(device)
        self.indices = list(indices)
        params, self.buffers = stack_module_state([m.to(device) for m in modules])
        self.params: Params = {n: p.detach().requires_grad_() for n, p in params.items()}

    def __call__(self, x: Tensor, rows: Rows, phase: Phase) -> tuple[State, State]:
        def one(params: State, buffers: State, x: Tensor, rows: Rows) -> Any:
            return functional_call(self.spare, (params, buffers), (x, rows, phase))

        return vmap(one, randomness="different")(self.params, self.buffers, x, rows)

    def enter(self, phase: Phase) -> None:
        self.spare.train()
        for name, p in self.params.items():
            p.requires_grad_(not is_frozen(name, phase))

    @contextmanager
    def member(self, r: int) -> Iterator[nn.Module]:
        self.spare.load_state_dict(self.state(r))
        yield self.spare
        with torch.no_grad():
            for name, t in self.spare.state_dict().items():
                self.state_dict()[name][r].copy_(t)

    def state(self, r: int) -> State:
        return {n: t[r].detach().clone() for n, t in self.state_dict().items()}

    def state_dict(self) -> State:
        return {**self.params, **self.buffers}

    @torch.no_grad()
    def load_state_dict(self, state: State) -> None:
        for name, t in self.state_dict().items():
            t.copy_(state[name])


Group: TypeAlias = Single | Stacked


def is_frozen(name: str, phase: Phase) -> bool:
    """Whether `name` is, or lies below, a part that stands still."""
    return any(name == part or name.startswith(part + ".") for part in phase.frozen)


def stacks(module: nn.Module, n_init: int, settings: Training) -> bool:
    """Whether to train `n_init` modules like `module` as one stack."""
    random_or_coupled = (nn.modules.batchnorm._BatchNorm, nn.Dropout)
    inexact = any(isinstance(m, random_or_coupled) for m in module.modules())
    if settings.restarts == "stacked" and inexact:
        raise ValueError(
            'Training(restarts="stacked"): this network has batch normalisation or dropout, for '
            'which a stack is not the same as its restarts alone. Use "single" or "auto".'
        )
    small = sum(p.numel() for p in module.parameters()) <= SMALL
    auto = n_init > 1 and small and not inexact and not settings.compile
    return settings.restarts == "stacked" or (settings.restarts == "auto" and auto)
