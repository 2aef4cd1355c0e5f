"""k-meansNet's equations (Section 3), one loop per sum."""

from __future__ import annotations

import math

import numpy as np


def dot(a, b):
    return sum(float(u) * float(v) for u, v in zip(a, b, strict=True))


def eq3_distance(x, omega):
    """||x - Omega_j||^2."""
    return sum((float(u) - float(v)) ** 2 for u, v in zip(x, omega, strict=True))


def eq4_membership(x, omegas, alpha):
    """exp(-alpha ||x - Omega_j||^2) over its sum, for one point."""
    e = [math.exp(-alpha * eq3_distance(x, o)) for o in omegas]
    return [v / sum(e) for v in e]


def eq5_layer(omegas, alpha):
    """W_j = 2 alpha Omega_j and b_j = -alpha ||Omega_j||^2."""
    weight = [[2 * alpha * float(v) for v in o] for o in omegas]
    bias = [-alpha * dot(o, o) for o in omegas]
    return np.array(weight), np.array(bias)


def eq7_attention(x, weight, bias):
    """exp(W_j'x + b_j) over its sum, for one point."""
    e = [math.exp(dot(w, x) + float(b)) for w, b in zip(weight, bias, strict=True)]
    return [v / sum(e) for v in e]


def eq6_loss(xs, weight, bias, alpha):
    """Mean over the points of sum_j I_ij (-W_j'x_i / a - b_j / a + beta_i / a)."""
    total = 0.0
    for x in xs:
        attention, beta = eq7_attention(x, weight, bias), alpha * dot(x, x)
        for j, w in enumerate(weight):
            total += attention[j] * (-dot(w, x) / alpha - float(bias[j]) / alpha + beta / alpha)
    return total / len(xs)


def eq8_z(x, weight, bias, alpha):
    """z_j = b_j + W_j'x - beta."""
    beta = alpha * dot(x, x)
    return [float(b) + dot(w, x) - beta for w, b in zip(weight, bias, strict=True)]


def eq8_f(z):
    """sum_j exp(z_j) z_j over sum_k exp(z_k)."""
    return sum(math.exp(v) * v for v in z) / sum(math.exp(v) for v in z)


def eq9_z(x, weight, alpha):
    """z_j = -||W_j||^2 / 4a + W_j'x - beta."""
    beta = alpha * dot(x, x)
    return [-dot(w, w) / (4 * alpha) + dot(w, x) - beta for w in weight]


def eq9_bound(weight, alpha, beta):
    """Every row at most 2 alpha beta long, by the nearest such point."""
    rows = []
    for w in weight:
        length = math.sqrt(dot(w, w))
        share = min(1.0, 2 * alpha * beta / length) if length else 1.0
        rows.append([share * float(v) for v in w])
    return np.array(rows)


def theorem_1(z):
    """1 + 2 max |z|."""
    return 1 + 2 * max(abs(float(v)) for v in np.ravel(z))


def theorem_2(distance, steps, epsilon):
    """(||W_1 - W*||^2 + eps^2 sum eta_t^2) / (2 sum eta_t)."""
    return (distance**2 + epsilon**2 * sum(s * s for s in steps)) / (2 * sum(steps))
