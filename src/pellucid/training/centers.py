"""How centres move around a step: TELL's on the sphere, k-meansNet's in a ball, PC-X's slowly."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from sklearn.base import BaseEstimator
from torch import Tensor

from pellucid.nn.centers import along_bound_, bound_, normalize_gradient_, normalize_weight_
from pellucid.nn.codebook import Pace, move_
from pellucid.training.optim import Rules, to_units_
from pellucid.training.schedules import Phase
from pellucid.typing import Params

WEIGHT, BIAS, BETA = "clusters.weight", "clusters.free_bias", "beta"
CENTROIDS, SHARES = "codebook.weight", "codebook.shares"
PUBLISHED_UNITS = 1000.0  # the published layer holds 2 alpha omega with alpha = 0.001


class Centers(BaseEstimator):
    """How TELL moves its centres (Section 2.2.3, Fig. 2).

    Parameters
    ----------
    normalize : bool, default=True
        Points and centres on the unit sphere; False is Eq. 9 in the plain space.
    weight_norm : bool, default=True
        Put the centres back on the sphere after every step. False is case (a) of Fig. 2, where
        W grows without bound.
    step : float or None, default=0.1
        Give each centre's gradient this share of the centre's length. None leaves the gradient as
        it is, Table 6's "w/o grad. norm." and case (b) of Fig. 2.
    coupled : bool, default=True
        In the plain space: b follows W (Eq. 5). False trains b on its own (Section 2.2.2).
    by : {"rule", "optimizer"}, default="rule"
        Subtract the normalised gradient, or hand it to the optimizer in the published units.
    decay : float, default=0.0
        Shrink the step to step / (1 + decay * epoch); 0 is the paper's fixed step.
    """

    def __init__(
        self,
        *,
        normalize: bool = True,
        weight_norm: bool = True,
        step: float | None = 0.1,
        coupled: bool = True,
        by: str = "rule",
        decay: float = 0.0,
    ) -> None:
        self.normalize = normalize
        self.weight_norm = weight_norm
        self.step = step
        self.coupled = coupled
        self.by = by
        self.decay = decay

    def knobs(self, epoch: int) -> dict[str, float]:
        """The step in `epoch`."""
        return {} if self.step is None else {"step": self.step / (1 + self.decay * epoch)}


@dataclass(frozen=True)
class CenterRules(Rules):
    """Gradient and weight normalisation (Section 2.2.3) around the optimizer's step."""

    spec: Centers = field(default_factory=Centers)

    def edit_grads(self, params: Params, phase: Phase) -> None:
        weight = params[WEIGHT]
        if weight.grad is None:
            return
        if self.spec.step is not None:
            normalize_gradient_(weight, phase.knobs.get("step", self.spec.step))
        else:
            to_units_(params, self.units or {})

    @torch.no_grad()
    def after_step(self, params: Params, phase: Phase) -> None:
        weight = params[WEIGHT]
        if weight.grad is not None and WEIGHT in self.own:
            weight.sub_(weight.grad)
        if self.spec.normalize and self.spec.weight_norm:
            normalize_weight_(weight)


def center_rules(spec: Centers) -> CenterRules:
    """The rules that `spec` asks for."""
    direct = spec.by == "rule" and spec.step is not None
    own = frozenset({WEIGHT}) if direct else frozenset[str]()
    units = {WEIGHT: PUBLISHED_UNITS} if spec.by == "optimizer" else None
    return CenterRules(own=own, units=units, spec=spec)


@dataclass(frozen=True)
class Bound(Rules):
    """k-meansNet: the constraint of Eq. 9 before and after every step, and what b may not do.

    A soft assignment does not see b's mean, a hard one none of b: that much of it follows W.
    """

    hard: bool = False
    held: dict[str, Tensor] = field(default_factory=dict)  # from before a step to after it

    def edit_grads(self, params: Params, phase: Phase) -> None:
        if params[WEIGHT].grad is not None:
            self.held[WEIGHT] = along_bound_(params[WEIGHT], 2 * params[BETA])
        to_units_(params, self.units or {})

    @torch.no_grad()
    def after_step(self, params: Params, phase: Phase) -> None:
        weight, limit = params[WEIGHT], 2 * params[BETA]
        if WEIGHT in self.held:  # a scaled step along the bound may lead inwards, too
            back = limit[..., None, None] / weight.norm(dim=-1, keepdim=True).clamp_min(1e-30)
            weight.mul_(torch.where(self.held.pop(WEIGHT), back, torch.ones_like(back)))
        bound_(weight, limit)
        if BIAS in params:
            tied = -weight.square().sum(-1) / 4
            apart = tied - params[BIAS]
            params[BIAS].add_(apart if self.hard else apart.mean(-1, keepdim=True))


@dataclass(frozen=True)
class Slow(Rules):
    """PC-X: c by Eq. 6, mu <- c by Eq. 7 and the sizes by Eq. 13, after the network's step.

    The batch's means are those of the embedding before that step, one pass for both, as the
    published code has it. Algorithm 1 would embed each batch twice.
    """

    own: frozenset[str] = frozenset({CENTROIDS, SHARES})
    kappa: float = 0.995
    pace: Pace = "steady"
    rho: float = 1.0  # in units of eta_1

    def after_step(self, params: Params, phase: Phase) -> None:
        mu, alpha = params[CENTROIDS], params[SHARES]
        if mu.grad is not None and alpha.grad is not None:
            how = {"kappa": self.kappa, "pace": self.pace, "rho": self.rho}
            move_(mu, alpha, mu.grad, alpha.grad, **how)  # type: ignore[arg-type]
