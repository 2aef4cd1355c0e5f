"""Deep k-Means' equations (Section 3), one loop per sum."""

from __future__ import annotations

import math

import numpy as np


def f_euclidean(h, r):
    """||h - r||^2."""
    return sum((a - b) ** 2 for a, b in zip(h, r, strict=True))


def f_cosine(h, r):
    """1 - cos(h, r)."""
    return 1 - float(np.dot(h, r)) / (math.sqrt(np.dot(h, h)) * math.sqrt(np.dot(r, r)))


def eq1_hard(error, h, reps, lam, f):
    """error + lambda times the mean distance to the closest representative."""
    return error + lam * sum(min(f(row, r) for r in reps) for row in h) / len(h)


def eq5_g(h, reps, alpha, f):
    """exp(-alpha f_k) over its sum, for one embedded sample."""
    d = [f(h, r) for r in reps]
    e = [math.exp(-alpha * (v - min(d))) for v in d]
    return [v / sum(e) for v in e]


def eq3_soft(error, h, reps, lam, alpha, f):
    """error + lambda mean_x sum_k f(h, r_k) G_k."""
    total = 0.0
    for row in h:
        g = eq5_g(row, reps, alpha, f)
        for k, r in enumerate(reps):
            total += f(row, r) * g[k]
    return error + lam * total / len(h)


PUBLISHED_ALPHAS = [
    0.1, 0.42321, 0.75157, 1.07797, 1.40871, 1.74819, 2.09937, 2.46437, 2.84485, 3.24218,
    3.65755, 4.09206, 4.54673, 5.02252, 5.52039, 6.04129, 6.58615, 7.15591, 7.75152, 8.37394,
    9.02415, 9.70315, 10.41196, 11.1516, 11.92315, 12.72768, 13.56632, 14.4402, 15.35048, 16.29838,
    17.28511, 18.31194, 19.38016, 20.49109, 21.64611, 22.8466, 24.094, 25.38979, 26.73546, 28.13258,
]  # fmt: skip
