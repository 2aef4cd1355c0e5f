"""Optimizers by name, and what happens to gradients before a step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from pellucid.typing import Params

PIECE = 2**16  # parameters that one pass of Adadelta looks at: 256 KB of each array


class Adadelta(torch.optim.Adadelta):
    """On a CPU with one root instead of two, in pieces that caches hold, without new memory."""

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """One step; see `torch.optim.Adadelta`."""
        if any(p.device.type != "cpu" for group in self.param_groups for p in group["params"]):
            return super().step(closure)
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is not None:
                    self.move_(p, p.grad, group)
        return None

    def move_(self, p: Tensor, grad: Tensor, group: dict[str, Any]) -> None:
        """p -= lr g sqrt((E[dx^2] + eps) / (E[g^2] + eps)), with both means moved on."""
        state, rho, eps = self.state[p], group["rho"], group["eps"]
        if not state:
            state["step"] = torch.zeros((), dtype=torch.float32)
            state["square_avg"], state["acc_delta"] = torch.zeros_like(p), torch.zeros_like(p)
        state["step"] += 1
        arrays = p, grad, state["square_avg"], state["acc_delta"]
        whole = all(a.is_contiguous() for a in arrays)
        pieces = [a.view(-1).split(PIECE) if whole else (a,) for a in arrays]
        room = torch.empty_like(pieces[0][0]), torch.empty_like(pieces[0][0])
        for x, g, squares, moves in zip(*pieces, strict=True):
            std, move = room if x.shape == room[0].shape else (r[: len(x)] for r in room)
            squares.mul_(rho).addcmul_(g, g, value=1 - rho)
            torch.add(squares, eps, out=std)
            torch.add(moves, eps, out=move).div_(std).sqrt_().mul_(g)
            moves.mul_(rho).addcmul_(move, move, value=1 - rho)
            x.add_(move, alpha=-group["lr"])


OPTIMIZERS: dict[str, type[torch.optim.Optimizer]] = {
    "adadelta": Adadelta,
    "adagrad": torch.optim.Adagrad,
    "adam": torch.optim.Adam,
    "rmsprop": torch.optim.RMSprop,
    "sgd": torch.optim.SGD,
}
SIZED = ("adagrad", "adam", "rmsprop")  # their steps have the size of lr whatever the gradient's
FUSED = ("adagrad", "adam", "sgd")  # one pass over memory instead of a dozen
CAPTURABLE = ("adadelta", "adam", "rmsprop")  # can keep their step count on the device
FALLBACK_LR = {"sgd": 0.01}


def build_optimizer(
    name: str,
    params: Params,
    *,
    lr: float | None = None,
    units: Mapping[str, float] = {},
    fused: bool = True,
) -> torch.optim.Optimizer:
    """One optimizer over `params`, `fused` where torch can.

    `units` rescales single parameters: with ``units={"w": s}`` the optimizer treats w, given here
    in units of 1/s, as if it were stored s times smaller. An optimizer with an epsilon is not
    blind to the size of what it moves, and a published run may have stored its centres at length
    0.002. Gradients are taken to be in the units of the parameter.
    """
    kind = OPTIMIZERS[name]
    options: dict[str, Any] = {} if lr is None else {"lr": lr}
    options.setdefault("lr", FALLBACK_LR.get(name, None) or default_of(kind, "lr"))
    cuda = any(p.device.type == "cuda" for p in params.values())
    if name in FUSED:
        options["fused"] = fused and not (cuda and name == "adagrad")  # torch has it for CPUs only
    if cuda and name in CAPTURABLE:
        options["capturable"] = True
    groups: list[dict[str, Any]] = [
        {"params": [p for n, p in params.items() if n not in units]},
    ]
    for n, scale in units.items():
        group: dict[str, Any] = {"params": [params[n]]}
        if name in SIZED:
            group |= {"lr": options["lr"] * scale, "eps": default_of(kind, "eps") * scale}
        elif name == "adadelta":
            group |= {"eps": default_of(kind, "eps") * scale**2}
        groups.append(group)
    return kind(groups, **options)


def has_graphs(name: str) -> bool:
    """Whether a step of this optimizer can be recorded as a CUDA graph."""
    return name in (*CAPTURABLE, "sgd")


def default_of(kind: type[torch.optim.Optimizer], option: str) -> float:
    """The default that PyTorch gives `option`."""
    from inspect import signature

    return float(signature(kind).parameters[option].default)


@torch.no_grad()
def to_units_(params: Params, units: Mapping[str, float]) -> None:
    """Gradients as `build_optimizer` wants them: u times shorter a parameter, u times steeper."""
    for name, u in units.items():
        if (grad := params[name].grad) is not None:
            grad.mul_(u**2)


@torch.no_grad()
def clip_gradients(grads: list[Tensor], limit: float, leading: int) -> None:
    """Scale each restart's gradients to at most `limit`; `leading` is 1 for a stack, else 0."""
    squares = [g.square().flatten(leading).sum(-1) for g in grads]
    norm = torch.stack(squares).sum(0).sqrt()  # () or (r,)
    factor = (limit / norm.clamp_min(1e-12)).clamp_max(1)
    for g in grads:
        g.mul_(factor.reshape(factor.shape + (1,) * (g.ndim - leading)))


@dataclass(frozen=True)
class Rules:
    """What an algorithm does to its parameters besides following the gradient."""

    own: frozenset[str] = frozenset()  # parameters the optimizer leaves to `after_step`
    units: Mapping[str, float] | None = None  # see build_optimizer

    def edit_grads(self, params: Params, phase: Any) -> None:
        """Before the optimizer's step."""

    def after_step(self, params: Params, phase: Any) -> None:
        """After the optimizer's step."""
