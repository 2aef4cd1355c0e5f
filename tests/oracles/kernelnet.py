"""KernelNet's equations, one loop per sum, on lists and full matrices."""

from __future__ import annotations

import math

import numpy as np


def gaussian(x, y, sigma):
    """exp(-||x - y||^2 / 2 sigma^2)."""
    return math.exp(-sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) / (2 * sigma**2))


def kernel(x, sigma, diagonal):
    """K_X, its diagonal one or zero."""
    n = len(x)
    k = np.zeros((n, n))
    for i in range(n):
        for j in range(n):
            k[i, j] = gaussian(x[i], x[j], sigma) if i != j or diagonal else 0.0
    return k


def eq33_degrees(k):
    """The sums of the rows of K."""
    return [sum(row) for row in k]


def eq32_normalised(k):
    """K_ij / sqrt(d_i d_j)."""
    d, n = eq33_degrees(k), len(k)
    return np.array([[k[i][j] / math.sqrt(d[i] * d[j]) for j in range(n)] for i in range(n)])


def centring(n):
    """H = I - 11'/n."""
    return np.array([[(1.0 if i == j else 0.0) - 1.0 / n for j in range(n)] for i in range(n)])


def eq36_laplacian(k):
    """H D^-1/2 K D^-1/2 H."""
    h = centring(len(k))
    return h @ eq32_normalised(k) @ h


def eq34_hsic(k, u):
    """tr(K~ H UU' H) / (N - 1)^2."""
    n, h = len(k), centring(len(k))
    product = eq32_normalised(k) @ h @ (u @ u.T) @ h
    return sum(product[i, i] for i in range(n)) / (n - 1) ** 2


def gamma(k, u):
    """D^-1/2 H UU' H D^-1/2."""
    n, d, h = len(k), eq33_degrees(k), centring(len(k))
    inside = h @ u @ u.T @ h
    return np.array(
        [[inside[i, j] / math.sqrt(d[i]) / math.sqrt(d[j]) for j in range(n)] for i in range(n)]
    )


def eq411(gammas, x, sigma):
    """sum_ij Gamma_ij exp(-||x_i - x_j||^2 / 2 sigma^2)."""
    n = len(x)
    return sum(gammas[i, j] * gaussian(x[i], x[j], sigma) for i in range(n) for j in range(n))


def eq515_skew(g, u):
    """A = g u' - u g'."""
    return g @ u.T - u @ g.T


def eq517_cayley(g, u, tau):
    """(I + tau/2 A)^-1 (I - tau/2 A) u with the whole n x n inverse."""
    a, eye = eq515_skew(g, u), np.eye(len(u))
    return np.linalg.inv(eye + tau / 2 * a) @ (eye - tau / 2 * a) @ u
