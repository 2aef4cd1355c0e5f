"""TELL's equations in the order of the paper (Section 2 and Appendix A), one loop per sum."""

from __future__ import annotations

import math

import numpy as np


def eq1_kmeans(x, memberships, omega):
    """sum_j sum_{i in S_j} ||x_i - omega_j||^2."""
    total = 0.0
    for i in range(len(x)):
        for j in range(len(omega)):
            total += memberships[i, j] * sum(
                (a - b) ** 2 for a, b in zip(x[i], omega[j], strict=True)
            )
    return total


def eq2_centre(x, labels, j):
    """The mean of S_j."""
    members = [x[i] for i in range(len(x)) if labels[i] == j]
    return sum(members) / len(members)


def eq4_distance(x, omega):
    """||x||^2 - 2 omega'x + ||omega||^2 of one point and one centre."""
    return float(x @ x) - 2 * float(omega @ x) + float(omega @ omega)


def eq5_layer(omega):
    """W_j = 2 omega_j and b_j = -||omega_j||^2."""
    weight = np.array([[2 * v for v in row] for row in omega])
    bias = np.array([-sum(v * v for v in row) for row in omega])
    return weight, bias


def eq6_distance(x, w, b):
    """beta - W_j'x - b_j of one point."""
    return float(x @ x) - float(w @ x) - b


def eq7_attention(x, omega, tau):
    """exp(-||x - omega_j||^2 / tau) over its sum, for one point."""
    e = [math.exp(-eq4_distance(x, o) / tau) for o in omega]
    return np.array([v / sum(e) for v in e])


def eq8_attention(x, weight, bias, tau):
    """The same through the layer."""
    e = [
        math.exp((float(w @ x) + b - float(x @ x)) / tau) for w, b in zip(weight, bias, strict=True)
    ]
    return np.array([v / sum(e) for v in e])


def eq9_loss(x, weight, bias, tau):
    """Mean over the samples of sum_j I_j (beta - W_j'x - b_j)."""
    total = 0.0
    for row in x:
        attention = eq8_attention(row, weight, bias, tau)
        for j in range(len(weight)):
            total += attention[j] * eq6_distance(row, weight[j], bias[j])
    return total / len(x)


def eq10_f(z, j, tau):
    """f(z_j) = exp(z_j / tau) z_j / sum_k exp(z_k / tau)."""
    return math.exp(z[j] / tau) * z[j] / sum(math.exp(v / tau) for v in z)


def eq11_z(x, w):
    """z_j = -||W_j||^2 / 4 + W_j'x - beta."""
    return -float(w @ w) / 4 + float(w @ x) - float(x @ x)


def eq13_loss(z, weight):
    """Mean over the samples of 2 - W_j'z_i for the largest entry of the attention."""
    total = 0.0
    for row in z:
        total += min(2 - float(w @ row) for w in weight)
    return total / len(z)


def eq14_reconstruction(x, x_hat):
    """Mean over the samples of ||x_i - x_hat_i||^2."""
    total = 0.0
    for a, b in zip(x, x_hat, strict=True):
        total += float(((a - b) ** 2).sum())
    return total / len(x)


def table_s1(z, weight):
    """(0.01 / alpha) mean_{b, k} (2 alpha - I_bk W_k'z_b) with W_k of length 2 alpha."""
    alpha, terms = 0.001, []
    for row in z:
        scores = [float(alpha * w @ row) for w in weight]
        for j, score in enumerate(scores):
            terms.append(2 * alpha - (score if j == int(np.argmax(scores)) else 0.0))
    return 0.01 / alpha * float(np.mean(terms))


def theorem_1(z, tau):
    """tau + 2 tau max ||z_i||."""
    return tau + 2 * tau * max(abs(v) for v in np.ravel(z))


def centre_step(omega, z, labels, share):
    """omega_j <- normalize(omega_j + share m_j), m_j the unit mean direction of j's points."""
    moved = np.array(omega, dtype=float)
    for j in range(len(omega)):
        members = [z[i] for i in range(len(z)) if labels[i] == j]
        if not members:
            continue
        mean = sum(members)
        moved[j] = omega[j] + share * mean / np.linalg.norm(mean)
        moved[j] /= np.linalg.norm(moved[j])
    return moved
