"""PC-X's equations (Section 3 and A.2 to A.4), one loop per sum."""

from __future__ import annotations

import math

import numpy as np


def squared(a, b):
    """||a - b||^2."""
    return sum((u - v) ** 2 for u, v in zip(a, b, strict=True))


def eq2_lambda(z, mu, tau):
    """lambda_nk of one sample."""
    d = [squared(z, m) for m in mu]
    e = [math.exp(-tau * (v - min(d))) for v in d]
    return [v / sum(e) for v in e]


def eq2_delta(z, mu, tau):
    """1 for the largest lambda_nk, else 0."""
    lam = eq2_lambda(z, mu, tau)
    return [1 if k == lam.index(max(lam)) else 0 for k in range(len(mu))]


def eq3_z_hat(z, mu, tau, weight, bias):
    """Concatenate z and its centroid, then one fully connected layer."""
    delta = eq2_delta(z, mu, tau)
    z_tilde = [sum(delta[k] * mu[k][i] for k in range(len(mu))) for i in range(len(z))]
    both = [*z, *z_tilde]
    return [
        sum(w * v for w, v in zip(row, both, strict=True)) + b
        for row, b in zip(weight, bias, strict=True)
    ]


def eq1_clustering(z, mu, tau):
    """1/N sum_n sum_k delta_nk ||z_n - mu_k||^2."""
    total = 0.0
    for row in z:
        for d, m in zip(eq2_delta(row, mu, tau), mu, strict=True):
            total += d * squared(row, m)
    return total / len(z)


def eq4(z, delta, c, mu, eta_1, rho):
    """The parts of L(Delta, c, mu) with c in them."""
    total = 0.0
    for n, row in enumerate(z):
        for k in range(len(mu)):
            total += eta_1 / len(z) * delta[n][k] * squared(row, c[k])
    for k in range(len(mu)):
        total += rho * squared(c[k], mu[k])
    return total


def eq6(z, delta, mu, eta_1, rho):
    """(rho mu_k + eta_1/N sum_n delta_nk z_n) / (rho + eta_1/N sum_n delta_nk)."""
    out = []
    for k in range(len(mu)):
        top, bottom = rho * np.array(mu[k], float), rho
        for n, row in enumerate(z):
            top = top + eta_1 / len(z) * delta[n][k] * np.array(row)
            bottom += eta_1 / len(z) * delta[n][k]
        out.append(top / bottom)
    return np.array(out)


def eq6_constant(z, delta, mu, kappa):
    """kappa mu_k + (1 - kappa) mean_k."""
    out = []
    for k in range(len(mu)):
        own = [np.array(row) for n, row in enumerate(z) if delta[n][k]]
        mean = sum(own) / len(own) if own else np.array(mu[k])
        out.append(kappa * np.array(mu[k]) + (1 - kappa) * mean)
    return np.array(out)


def counts(batches, mu, alpha, kappa):
    """Averages of sums over averages of counts, from the start m_k = alpha_k mu_k."""
    m = [alpha[k] * np.array(mu[k]) for k in range(len(mu))]
    n = list(alpha)
    for z, delta in batches:
        for k in range(len(mu)):
            share = sum(delta[i][k] for i in range(len(z))) / len(z)
            total = sum(delta[i][k] * np.array(z[i]) for i in range(len(z))) / len(z)
            n[k] = kappa * n[k] + (1 - kappa) * share
            m[k] = kappa * m[k] + (1 - kappa) * total
    return np.array([m[k] / n[k] for k in range(len(mu))]), np.array(n)


def eq8(z, mu, tau):
    """-1/N sum_n sum_k lambda log lambda."""
    total = 0.0
    for row in z:
        for v in eq2_lambda(row, mu, tau):
            total -= v * math.log(v) if v > 0 else 0.0
    return total / len(z)


def eq10(alpha):
    """alpha_k K / sum_j alpha_j."""
    return [a * len(alpha) / sum(alpha) for a in alpha]


def eq11(z, labels, mu):
    """1/K sum_k omega_k (1/alpha_k sum over S_k)."""
    alpha = [sum(1 for label in labels if label == k) for k in range(len(mu))]
    total = 0.0
    for k, w in enumerate(eq10(alpha)):
        inside = sum(squared(r, mu[k]) for r, label in zip(z, labels, strict=True) if label == k)
        total += w * inside / alpha[k]
    return total / len(mu)


def eq12_clustering(z, labels, mu, alpha):
    """1/N sum_n 1/omega_k sum_k delta_nk ||z_n - mu_k||^2."""
    w = eq10(alpha)
    return sum(squared(r, mu[k]) / w[k] for r, k in zip(z, labels, strict=True)) / len(z)


def eq13(alpha, delta, kappa):
    """kappa alpha_k + (1 - kappa) sum_n delta_nk."""
    return [kappa * a + (1 - kappa) * sum(d[k] for d in delta) for k, a in enumerate(alpha)]


def eq14(alpha, eps):
    """(alpha_k + eps) sum_j alpha_j / (sum_j alpha_j + eps K)."""
    return [(a + eps) * sum(alpha) / (sum(alpha) + eps * len(alpha)) for a in alpha]


def table7(z):
    """The largest singular value's share of all, in per cent."""
    s = np.sqrt(np.maximum(np.linalg.eigvalsh(np.asarray(z).T @ np.asarray(z)), 0))
    return 100 * s.max() / s.sum()
