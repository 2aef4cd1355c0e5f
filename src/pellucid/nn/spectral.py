"""Top eigenvectors of a symmetric operator, and ascent on the Stiefel manifold {U : U'U = I}."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import torch
from scipy.sparse.linalg import LinearOperator, eigsh
from torch import Tensor

Operator: TypeAlias = Callable[[Tensor], Tensor]  # (n, m) -> (n, m), linear and symmetric

DENSE = 400  # up to here the whole spectrum costs less than starting a Lanczos iteration


def top_eigenvectors(apply: Operator, start: Tensor, tol: float = 1e-5) -> tuple[Tensor, Tensor]:
    """The c largest eigenvalues, falling, and their vectors; `start` (n, c) is a guess at these.

    Dense when n is small, else by implicitly restarted Lanczos iterations (ARPACK), which need
    nothing but products.
    """
    n, c = start.shape
    if n <= max(DENSE, 2 * c + 2):
        whole = apply(torch.eye(n, dtype=start.dtype, device=start.device)).double()
        values, vectors = torch.linalg.eigh((whole + whole.mT) / 2)
        return values[-c:].flip(0).to(start), vectors[:, -c:].flip(1).to(start)

    def product(v: np.ndarray) -> np.ndarray:
        columns = torch.from_numpy(v.reshape(n, -1)).to(start)
        return apply(columns).cpu().double().numpy().reshape(v.shape)

    operator = LinearOperator((n, n), matvec=product, matmat=product, dtype=np.float64)
    guess = start.sum(1).double().cpu().numpy()
    # Some noise, since the sum of one-hot columns is constant, which a centred operator maps to 0.
    guess += np.random.default_rng(0).normal(size=n) * max(0.1 * np.abs(guess).mean(), 1e-12)
    ncv = min(n, max(3 * c, 24))
    values, vectors = eigsh(operator, k=c, which="LA", v0=guess, ncv=ncv, tol=tol, maxiter=100 * c)
    order = np.argsort(-values)
    found = torch.from_numpy(np.ascontiguousarray(vectors[:, order]))
    return torch.from_numpy(values[order]).to(start), found.to(start)


def cayley(u: Tensor, g: Tensor, tau: float) -> Tensor:
    """(I + tau/2 A)^-1 (I - tau/2 A) u with A = g u' - u g' (KernelNet, Eq. 5.16 and 5.17).

    A has rank 2c: A = P Q' with P = [g, u], Q = [u, -g], and by Sherman, Morrison and Woodbury
    u - tau P (I + tau/2 Q'P)^-1 Q'u, which inverts 2c x 2c numbers instead of n x n.
    """
    p, q = torch.cat([g, u], 1), torch.cat([u, -g], 1)  # (n, 2c)
    small = torch.eye(p.shape[1], dtype=u.dtype, device=u.device) + tau / 2 * q.mT @ p
    return u - tau * p @ torch.linalg.solve(small, q.mT @ u)


def orthonormal(u: Tensor) -> Tensor:
    """An orthonormal basis of the same columns, in float64 inside."""
    q, r = torch.linalg.qr(u.double())
    return (q * r.diagonal().sign()).to(u)  # so that an orthonormal u comes back as it is


def ascend(apply: Operator, u: Tensor, *, steps: int = 5, tau: float = 4.0) -> tuple[Tensor, float]:
    """Raise tr(U'LU) along the manifold from u (n, c); the new U and its value.

    Each step shortens tau by 0.2 until the value does not fall, and stops where no tau helps.
    """
    given = u.dtype
    u = orthonormal(u).double()
    lu = apply(u.to(given)).double()
    value = float((u * lu).sum())
    for _ in range(steps):
        g = -2 * lu  # the gradient of -tr(U'LU)
        best, trial = value, tau
        while trial > 1e-9:
            moved = cayley(u, g, trial)
            lm = apply(moved.to(given)).double()
            if (best := float((moved * lm).sum())) >= value:
                break
            trial *= 0.2
        if trial <= 1e-9 or float((moved - u).norm()) < 1e-3 * float(u.norm()):
            break
        u, lu, value = moved, lm, best
    return u.to(given), value


def relative_change(u: Tensor, v: Tensor) -> float:
    """||UU' - VV'||_F / ||VV'||_F without an n x n matrix: from U'U, U'V and V'V."""
    u, v = u.double(), v.double()
    uu, uv, vv = (float((a.mT @ b).square().sum()) for a, b in ((u, u), (u, v), (v, v)))
    return (max(uu - 2 * uv + vv, 0.0) / max(vv, 1e-300)) ** 0.5
