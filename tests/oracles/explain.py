"""Slow loops over single rows for what `pellucid.explain` computes in a stream."""

from __future__ import annotations

import math

import numpy as np


def stand(z, centres, tau):
    """(cluster, distance, margin, second, entropy, position) of one embedded row."""
    gaps = [sum((a - b) ** 2 for a, b in zip(z, c, strict=True)) for c in centres]
    order = sorted(range(len(gaps)), key=lambda j: (gaps[j], j))
    own, other = order[0], order[1]
    weights = [math.exp(-(g - gaps[own]) / tau) for g in gaps]
    s = [w / sum(weights) for w in weights]
    entropy = -sum(p * math.log(p) for p in s if p > 0)
    between = sum((a - b) ** 2 for a, b in zip(centres[own], centres[other], strict=True))
    distance = math.sqrt(gaps[own])
    position = (gaps[other] - gaps[own]) / between
    return own, distance, math.sqrt(gaps[other]) - distance, other, entropy, position


def exemplars(X, labels, keys, j, m):
    """The m rows of cluster j with the smallest keys; of equal rows only the first."""
    chosen, seen = [], set()
    for row in sorted(range(len(X)), key=lambda i: (keys[i], i)):
        if labels[row] == j and X[row].tobytes() not in seen:
            chosen.append(row)
            seen.add(X[row].tobytes())
    return chosen[:m]


def profile(X, labels, j):
    """Mean, overall mean and standardised difference of every feature, for cluster j."""
    rows = [x for x, label in zip(X, labels, strict=True) if label == j]
    table = []
    for f in range(X.shape[1]):
        overall = sum(x[f] for x in X) / len(X)
        variance = sum((x[f] - overall) ** 2 for x in X) / len(X)
        mean = sum(x[f] for x in rows) / len(rows)
        table.append((mean, overall, (mean - overall) / math.sqrt(variance) if variance else 0.0))
    return table


def jaccard(reference, labels, j):
    """The largest |A and B| / |A or B| of cluster j with any cluster of `labels`."""
    a = {i for i, label in enumerate(reference) if label == j}
    groups = [{i for i, label in enumerate(labels) if label == c} for c in set(labels)]
    return max(len(a & b) / len(a | b) for b in groups) if a else 0.0


def tree_cost(X, labels, centres):
    """Sum of squared distances to the centres that the labels name."""
    return sum(float(np.square(x - centres[j]).sum()) for x, j in zip(X, labels, strict=True))


def mistakes(x, own, feature, threshold):
    """Rows on another side of the cut than their own mean."""
    return sum(
        (row[feature] <= threshold) != (mean[feature] <= threshold)
        for row, mean in zip(x, own, strict=True)
    )


def split_cost(x, gaps, leaves):
    """The cost after each possible split of one leaf, its sides given their cheapest centres."""
    whole = {leaf: gaps[leaves == leaf] for leaf in set(leaves)}
    for leaf, inside in whole.items():
        rest = sum(g[:, other].sum() for other, g in whole.items() if other != leaf)
        rows = x[leaves == leaf]
        for f in range(x.shape[1]):
            for value in rows[:, f]:
                low = rows[:, f] <= value
                yield rest + inside[low].sum(0).min() + inside[~low].sum(0).min()
