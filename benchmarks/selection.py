"""Which rule picks the right restart without labels? A study of recorded restarts.

A recipe with one restart per fit and ``keep=("labels", "embedding")`` is run for many seeds; each
seed is a restart. Every rule scores every restart from what a user has: losses, labels, embedding,
samples. True labels only judge: rank correlation with ACC, the ACC of the restart that the rule
picks of all, and the mean ACC of its picks over all sets of five.

A rule is a vector, one value per restart, or a table of how restart i agrees with restart j, of
which a set takes the mean over its own members. More is better. Where labels and embeddings of
recorded restarts are not kept any more, only the rules that read the records are judged.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import spearmanr
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.neighbors import kneighbors_graph

from benchmarks import records
from benchmarks.data import Array
from benchmarks.methods import flat
from benchmarks.recipe import Recipe, find
from benchmarks.records import Line
from benchmarks.runner import Place, Task
from benchmarks.tables import rows

SAMPLE, NEIGHBORS, SET, FEWEST = 2000, 10, 5, 3
METHOD, PRETRAINED = "TELL", "AE + k-means"


@dataclass
class Study:
    """The restarts of one data set."""

    name: str
    lines: list[Line]  # one per restart
    labels: list[Array]
    embeddings: list[Array]
    samples: Array  # (SAMPLE, d) pixels
    rows: Array  # which these are
    pretrained: list[Array] = field(default_factory=list)  # embeddings before any clustering
    weight: float = 0.0  # of L_clu in the total loss

    @property
    def accuracies(self) -> Array:
        return np.array([line["acc"] for line in self.lines])

    def on_sample(self, labels: Array) -> Array:
        return labels[self.rows]

    @cached_property
    def links(self) -> Any:
        """Nearest neighbours in pixels, symmetric."""
        return neighbours(self.samples)

    @cached_property
    def pretrained_links(self) -> list[Any]:
        return [neighbours(z[self.rows]) for z in self.pretrained]


def from_records(target: str, place: Place) -> Study:
    """What `target` has recorded and kept."""
    name, recipe = find(target)
    lines = records.read(place.records / name / "runs.jsonl")
    found = {row.method: row.fits for row in rows(recipe, lines)}
    fits = sorted(found.get(METHOD, []), key=lambda fit: fit["seed"])
    if len(fits) < FEWEST:
        raise ValueError(f"{name} has {len(fits)} restarts of {METHOD} recorded: run more seeds.")
    arrays = {f["seed"]: kept(name, recipe, METHOD, f["seed"], place) for f in fits}
    whole = [fit for fit in fits if arrays[fit["seed"]]]
    fits = whole if len(whole) >= FEWEST else fits
    before = [kept(name, recipe, PRETRAINED, f["seed"], place) for f in found.get(PRETRAINED, [])]
    given, _ = recipe.data.draw(place.data, 0)
    at = np.random.default_rng(0).permutation(len(given.X))[:SAMPLE]
    params = getattr(recipe.methods[METHOD], "params", {})
    return Study(
        name,
        fits,
        [arrays[fit["seed"]]["labels"] for fit in fits] if fits is whole else [],
        [arrays[fit["seed"]]["embedding"] for fit in fits] if fits is whole else [],
        flat(given.X[at]),
        at,
        [a["embedding"] for a in before if a],
        params.get("lam", 0.01) / params["n_clusters"],
    )


def kept(name: str, recipe: Recipe, method: str, seed: int, place: Place) -> dict[str, Array]:
    """The arrays that the runner put aside for one seed; none where they are gone."""
    path = Task(name, recipe, method, seed, place.records, place.work).arrays
    if not path.exists():
        return {}
    with np.load(path) as archive:
        return dict(archive)


# Rules ---------------------------------------------------------------------------------------


def loss(study: Study) -> Array:
    """L_clu in eval mode, the paper's rule."""
    return -np.array([line["scores"]["loss"] for line in study.lines])


def total_loss(study: Study) -> Array:
    """L_rec of the last epoch and the weighted L_clu (Eq. 15)."""
    last = [line["curve"][-1].get("reconstruction", 0.0) for line in study.lines]
    return -(np.array(last) + study.weight * -loss(study))


def spread_loss(study: Study) -> Array:
    """Scatter within the clusters over all scatter of the own embedding: blind to shrinking."""
    pairs = zip(study.embeddings, study.labels, strict=True)
    return -np.array([within(z, labels) for z, labels in pairs])


def start_cut(study: Study) -> Array | None:
    """Normalised cut of the graph that the centres started from."""
    scores = [line["scores"] for line in study.lines]
    return -np.array([s["cut"] for s in scores]) if all("cut" in s for s in scores) else None


def pretrained_inertia(study: Study) -> Array | None:
    """Scatter within the clusters in embeddings that no clustering has shaped."""
    if not study.pretrained:
        return None
    return -np.array([np.mean([within(z, y) for z in study.pretrained]) for y in study.labels])


def pixel_inertia(study: Study) -> Array:
    """Scatter within the clusters in pixels."""
    return -np.array([within(study.samples, study.on_sample(y)) for y in study.labels])


def cross_inertia(study: Study) -> Array:
    """How tight the clusters are in the embeddings of the other restarts."""
    return -np.array([[within(z, y) for z in study.embeddings] for y in study.labels])


def consensus(study: Study) -> Array:
    """Adjusted Rand index with the other restarts."""
    return np.array([[adjusted_rand_score(a, b) for b in study.labels] for a in study.labels])


def silhouette(study: Study) -> Array:
    """Silhouette of a sample in the own embedding."""
    pairs = zip(study.embeddings, study.labels, strict=True)
    return np.array([silhouette_or_worst(z[study.rows], y[study.rows]) for z, y in pairs])


def pixel_silhouette(study: Study) -> Array:
    """Silhouette of a sample in pixels."""
    return np.array([silhouette_or_worst(study.samples, y[study.rows]) for y in study.labels])


def cross_silhouette(study: Study) -> Array:
    """Silhouette of a sample in the embeddings of the other restarts."""
    parts = [z[study.rows] for z in study.embeddings]
    return np.array([[silhouette_or_worst(z, y[study.rows]) for z in parts] for y in study.labels])


def pixel_cut(study: Study) -> Array:
    """Normalised cut of the neighbour graph of a sample in pixels."""
    return -np.array([cut(study.links, study.on_sample(y)) for y in study.labels])


def pretrained_cut(study: Study) -> Array | None:
    """The same in embeddings that no clustering has shaped."""
    if not study.pretrained:
        return None
    graphs = study.pretrained_links
    return -np.array([np.mean([cut(g, study.on_sample(y)) for g in graphs]) for y in study.labels])


def balance(study: Study) -> Array:
    """Entropy of the clusters' sizes."""
    return np.array([entropy(np.bincount(y) / len(y)) for y in study.labels])


Rule = Callable[[Study], Array | None]
ON_RECORDS: dict[str, Rule] = {
    "L_clu (the paper's)": loss,
    "total loss": total_loss,
    "cut of the start": start_cut,
}
RULES: dict[str, Rule] = ON_RECORDS | {
    "within / all scatter": spread_loss,
    "inertia, pretrained embedding": pretrained_inertia,
    "inertia, pixels": pixel_inertia,
    "inertia, other restarts": cross_inertia,
    "consensus": consensus,
    "silhouette": silhouette,
    "silhouette, pixels": pixel_silhouette,
    "silhouette, other restarts": cross_silhouette,
    "cut, pixels": pixel_cut,
    "cut, pretrained embedding": pretrained_cut,
    "balance": balance,
}


def within(z: Array, labels: Array) -> float:
    """Sum of squares within clusters over the sum of squares about the mean."""
    z = z.astype(np.float64)
    about = z - z.mean(0)
    counts = np.bincount(labels)
    sums = np.zeros((len(counts), z.shape[1]))
    np.add.at(sums, labels, about)
    between = (np.square(sums).sum(1) / counts.clip(1)).sum()
    return float(1 - between / np.square(about).sum())


def silhouette_or_worst(z: Array, labels: Array) -> float:
    """The silhouette; -1 where there is one cluster only."""
    return float(silhouette_score(z, labels)) if len(np.unique(labels)) > 1 else -1.0


def neighbours(z: Array) -> Any:
    """Symmetric graph of nearest neighbours."""
    graph = kneighbors_graph(z, NEIGHBORS)
    return graph.maximum(graph.T)


def cut(graph: Any, labels: Array) -> float:
    """Normalised cut, between 0 and the number of clusters; an empty cluster costs 1."""
    one_hot = np.eye(int(labels.max()) + 1)[labels]
    degree = one_hot.T @ np.asarray(graph.sum(1)).ravel()
    inside = np.einsum("nk,nk->k", one_hot, graph @ one_hot)
    return float((1 - inside / degree.clip(1e-9)).sum())


def entropy(shares: Array) -> float:
    """In nats."""
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


# Judging -------------------------------------------------------------------------------------


def pooled(score: Array, members: Array) -> Array:
    """Scores within a set: a table becomes the mean over the others of the set."""
    if score.ndim == 1:
        return score[members]
    part = score[np.ix_(members, members)]
    return (part.sum(1) - np.diag(part)) / max(len(members) - 1, 1)


def judged(study: Study) -> list[Line]:
    """One line per rule, with what every restart got from it."""
    acc, everyone, lines = study.accuracies, np.arange(len(study.lines)), []
    sets = [np.array(c) for c in combinations(everyone, min(SET, len(everyone)))]
    for name, rule in (RULES if study.labels else ON_RECORDS).items():
        score = rule(study)
        if score is None:
            continue
        whole = pooled(score, everyone)
        picks = [acc[s[int(np.argmax(pooled(score, s)))]] for s in sets]
        flat_ = bool(np.ptp(whole) == 0 or np.ptp(acc) == 0)
        lines.append(
            {
                "data": study.name,
                "rule": name,
                "rank_correlation": None if flat_ else round(float(spearmanr(whole, acc)[0]), 3),
                "pick_acc": float(acc[int(np.argmax(whole))]),
                "pick_acc_of_five": round(float(np.mean(picks)), 5),
                "scores": [float(f"{v:.6g}") for v in whole],
                "acc": acc.tolist(),
                "seeds": [line["seed"] for line in study.lines],
                "config_id": study.lines[0]["config_id"],
            }
        )
    return lines


def run(targets: list[str], place: Place) -> str:
    """Judge every rule on every recipe of `targets`, record, and give the table."""
    found: list[Line] = []
    for target in targets:
        found += judged(from_records(target, place))
    here = records.surroundings()
    records.append(place.records / "selection" / "runs.jsonl", [line | here for line in found])
    return table(found)


def table(lines: list[Line]) -> str:
    """Rules down, data sets across: rank correlation, ACC of the pick of all and of five."""
    sets = list(dict.fromkeys(line["data"] for line in lines))
    at = {(line["data"], line["rule"]): line for line in lines}
    names = list(dict.fromkeys(line["rule"] for line in lines))
    head = ["rule", *(f"{name} ({len(at[name, names[0]]['acc'])})" for name in sets), "mean"]
    body = [[rule, *(told(at.get((name, rule))) for name in sets)] for rule in names]
    for cells, rule in zip(body, names, strict=True):
        cells.append(told_mean([at[name, rule] for name in sets if (name, rule) in at]))
    body.append(["*mean ... best restart*", *(extent(at[name, names[0]]) for name in sets), ""])
    text = ["| " + " | ".join(cells) + " |" for cells in [head, *body]]
    text.insert(1, "|" + " --- |" * len(head))
    note = "Rank correlation with ACC; ACC of the pick of all restarts; mean ACC over sets of five."
    return "\n".join([*text, "", note])


def told(line: Line | None) -> str:
    """One cell."""
    if line is None:
        return ""
    correlation = line["rank_correlation"]
    first = "-" if correlation is None else f"{correlation:+.2f}"
    return f"{first}; {100 * line['pick_acc']:.2f}; {100 * line['pick_acc_of_five']:.2f}"


def told_mean(lines: list[Line]) -> str:
    """The last cell of a row: the mean over the sets that have the rule."""
    known = [x["rank_correlation"] for x in lines if x["rank_correlation"] is not None]
    first = f"{np.mean(known):+.2f}" if known else "-"
    picks = (100 * np.mean([x[key] for x in lines]) for key in ("pick_acc", "pick_acc_of_five"))
    return "; ".join([first, *(f"{value:.2f}" for value in picks), f"{len(lines)} sets"])


def extent(line: Line) -> str:
    """From what a blind pick gives to what the best restart has."""
    return f"{100 * np.mean(line['acc']):.2f} ... {100 * np.max(line['acc']):.2f}"
