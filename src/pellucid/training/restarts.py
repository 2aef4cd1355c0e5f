"""One restart, or a stack of them, behind one interface.

Both take batches with the restart axis in front, ``x (r, b, *shape)``, and return every term and
statistic with it; `rows` say which they are. Restart i of a stack equals restart i alone for
elementwise optimizers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
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

    index: Tensor  # type: ignore[assignment]  # (b,) or (r, b); hides tuple.index
    labels: Tensor  # the same


SMALL = 200_000  # weights; below, a CPU or GPU spends its time on launches and a stack pays


class Single:
    """One module as a group of one restart."""

    leading = 0

    def __init__(self, module: nn.Module, index: int, settings: Training) -> None:
        self.module = module.to(settings.torch_device())
        self.indices = [index]
        self.params: Params = dict(self.module.named_parameters())
        self.still = {n for n, p in self.params.items() if not p.requires_grad}
        self.normalizes = has(self.module, nn.modules.batchnorm._BatchNorm)
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
            p.requires_grad_(name not in self.still and not is_frozen(name, phase))

    @contextmanager
    def training(self) -> Iterator[None]:
        """Around the epochs: phases freeze and thaw, and leave no trace."""
        try:
            yield
        finally:
            for name, p in self.params.items():
                p.requires_grad_(name not in self.still)

    @contextmanager
    def member(self, r: int) -> Iterator[Any]:
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
    normalizes = False  # see `stacks`

    def __init__(
        self, modules: Sequence[nn.Module], indices: Sequence[int], settings: Training
    ) -> None:
        device = settings.torch_device()
        self.spare = deepcopy(modules[0]).to(device)
        self.indices = list(indices)
        params, self.buffers = stack_module_state([m.to(device) for m in modules])
        self.still = {n for n, p in params.items() if not p.requires_grad}
        self.params: Params = {
            n: p.detach().requires_grad_(p.requires_grad) for n, p in params.items()
        }

    def __call__(self, x: Tensor, rows: Rows, phase: Phase) -> tuple[State, State]:
        def one(params: Params, buffers: State, x: Tensor, rows: Rows) -> Any:
            return functional_call(self.spare, (dict(params), buffers), (x, rows, phase))

        return vmap(one, randomness="different")(self.params, self.buffers, x, rows)

    def enter(self, phase: Phase) -> None:
        self.spare.train()
        for name, p in self.params.items():
            p.requires_grad_(name not in self.still and not is_frozen(name, phase))

    def training(self) -> AbstractContextManager[None]:
        return nullcontext()

    @contextmanager
    def member(self, r: int) -> Iterator[Any]:
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


def has(module: nn.Module, kind: type[nn.Module]) -> bool:
    """Whether a layer of this kind is anywhere in `module`."""
    return any(isinstance(m, kind) for m in module.modules())


def stacks(module: nn.Module, n_init: int, settings: Training) -> bool:
    """Whether to train `n_init` modules like `module` as one stack."""
    inexact = has(module, nn.modules.batchnorm._BatchNorm) or any(
        m.p > 0 if isinstance(m, nn.modules.dropout._DropoutNd) else getattr(m, "draws", False)
        for m in module.modules()
    )
    if settings.restarts == "stacked" and inexact:
        raise ValueError(
            'Training(restarts="stacked"): this network has batch normalisation, dropout or noise, '
            'for which a stack is not the same as its restarts alone. Use "single" or "auto".'
        )
    small = sum(p.numel() for p in module.parameters()) <= SMALL
    # Somebody else's module may do what vmap refuses, or draw what no layer tells of.
    ours = all(type(m).__module__.startswith(("torch.", "pellucid.")) for m in module.modules())
    auto = n_init > 1 and small and ours and not inexact and not settings.compile
    return settings.restarts == "stacked" or (settings.restarts == "auto" and auto)
