"""What algorithms that train network and centres at once share: L = error + lambda clustering."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from pellucid.losses import squared_errors
from pellucid.nn import squared_distances, unit_rows
from pellucid.training import Phase, Rows, Schedule
from pellucid.typing import Terms

MODEST = 1e-3  # of the reconstruction, while the network has learned nothing yet
LEARNED = 0.99  # an error above this share of the mean's own is that of such a network


def balance(error: Tensor, pull: Tensor, h: Tensor) -> float:
    """lambda for which both losses pull equally at the embedding: |d error/dh| / |d pull/dh|."""
    sizes = [torch.autograd.grad(t, h, retain_graph=True)[0].norm() for t in (error, pull)]
    return float(sizes[0] / sizes[1].clamp_min(1e-12))


def modest(error: Tensor, pull: Tensor) -> float:
    """lambda for which the clustering is a thousandth of the reconstruction's error."""
    return float(MODEST * error.detach() / pull.detach().clamp_min(1e-12))


def joint_schedule(
    knobs: Callable[[int], Mapping[str, float]] = lambda _: {},
    *,
    frozen: bool = False,
    settle: int = 0,
) -> Schedule:
    """Both terms in every epoch; with `frozen`, and in the first `settle`, the clustering alone."""

    def joint(epoch: int) -> Phase:
        if frozen or epoch < settle:
            still, name = frozenset({"autoencoder"}), "joint" if frozen else "settle"
            return Phase({"clustering": 1.0}, still, knobs(epoch), name)
        return Phase({"reconstruction": 1.0, "clustering": 1.0}, knobs=knobs(epoch), name="joint")

    return joint


class JointModule(nn.Module):
    """An autoencoder whose embedding has centres; a subclass says what `centers` and the loss are.

    Parameters
    ----------
    autoencoder : nn.Module
    lam : float or "auto"
        Weight of the clustering; "auto" is `balance` on a sample, once the centres are placed.
        Without reconstruction before, its gradient says nothing yet, and "auto" is `modest`.
    sphere : bool
        Put the embedding on the unit sphere; the decoder, too, sees it there.
    """

    autoencoder: Any
    lam: Tensor

    def __init__(self, autoencoder: Any, lam: float | str, sphere: bool) -> None:
        super().__init__()
        self.autoencoder = autoencoder
        self.sphere = sphere
        learns = any(True for _ in autoencoder.parameters())  # or there is nothing to balance
        self.automatic = lam == "auto" and learns
        self.register_buffer("lam", torch.tensor(1.0 if isinstance(lam, str) else float(lam)))

    @property
    def centers(self) -> Tensor:
        """(k, d)."""
        raise NotImplementedError

    def clustering(self, h: Tensor, distances: Tensor, phase: Phase) -> Tensor:
        """The clustering term, without lambda."""
        raise NotImplementedError

    def encode(self, x: Tensor) -> Tensor:
        h = self.autoencoder.encode(x)
        return unit_rows(h) if self.sphere else h  # (b, d)

    def decode(self, h: Tensor) -> Tensor:
        return self.autoencoder.decode(h)

    def distances(self, h: Tensor) -> Tensor:
        """||h - omega_j||^2."""
        return squared_distances(h, self.centers)  # (b, k)

    def gaps(self, x_hat: Tensor, x: Tensor) -> Tensor:
        """||x - x_hat||^2 of every sample, summed over its features."""
        return squared_errors(x_hat, x)  # (b,)

    def errors(self, h: Tensor, x: Tensor) -> Tensor:
        """What the decoded embedding misses of every sample."""
        return self.gaps(self.decode(h), x)

    def forward(self, x: Tensor, rows: Rows, phase: Phase) -> Terms:
        h = self.encode(x)
        d = self.distances(h)
        # A network could shrink the embedding instead of clustering it (Deep k-Means, Section
        # 3.4); its scale is recorded, so that a fit which does so shows it.
        stats = {"labels": d.argmin(-1), "scale": h.detach().float().square().sum(-1).mean().sqrt()}
        terms = {}
        if phase.weights.get("reconstruction"):
            terms["reconstruction"] = self.errors(h, x).mean()
        if phase.weights.get("clustering"):
            terms["clustering"] = self.lam * self.clustering(h, d, phase)
        return terms, stats

    def judge(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each sample's error + lambda min_j ||h - omega_j||^2, and its cluster."""
        h = self.encode(x)
        gap, labels = self.distances(h).min(-1)
        return self.errors(h, x) + self.lam * gap, labels

    def calibrate_(self, x: Tensor) -> dict[str, float]:
        """Choose lambda on a sample, when the centres have just been placed."""
        if self.automatic:
            with torch.enable_grad():
                h = self.encode(x).detach().requires_grad_()
                d, error = self.distances(h), self.errors(h, x).mean()
                if error > LEARNED * self.gaps(x.mean(0).expand_as(x), x).mean():
                    self.lam.fill_(modest(error, d.mean()))  # a first alpha near 0 takes all alike
                else:
                    self.lam.fill_(balance(error, d.min(-1).values.mean(), h))
        return {"lam": float(self.lam)}
