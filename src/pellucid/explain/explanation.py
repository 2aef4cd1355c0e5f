"""What an explanation holds: plain arrays and dataclasses, nothing that computes."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from pellucid.typing import Array, Shape


@dataclass(frozen=True)
class Sample:
    """One row of the data and how it stands to its cluster."""

    row: int
    cluster: int
    distance: float  # to its own centre, in the latent space
    margin: float  # distance to the second nearest centre minus `distance`
    second: int  # that centre, or -1 where there is one cluster
    entropy: float  # of its memberships, from 0 to log k


@dataclass(frozen=True)
class Shift:
    """How a cluster differs in one feature from everything."""

    feature: int
    name: str
    mean: float  # of the cluster, on the original scale
    overall: float  # of all rows
    standardised: float  # (mean - overall) / standard deviation of all rows


@dataclass(frozen=True)
class Cluster:
    """One cluster's card."""

    index: int
    size: int
    share: float
    spread: float  # root mean squared distance of its members to the centre
    central: list[Sample]  # nearest to the centre, deduplicated
    boundary: list[Sample]  # smallest margins
    untypical: list[Sample]  # farthest from the centre
    prototype: Array | None  # the decoded centre, (*sample_shape), None where nothing decodes
    profile: list[Shift]  # sorted by |standardised|
    rule: str  # the leaves of the tree that mean this cluster, in words; "" without a tree
    rule_precision: float  # share of the rule's rows that are in the cluster
    rule_recall: float  # share of the cluster's rows that the rule catches
    neighbours: list[tuple[int, int]]  # (other cluster, rows that have it second), most first
    stability: float | None  # mean best-match Jaccard over restarts, None where there was one
    appears: tuple[int, int] | None  # other restarts with a match of at least 0.5, of how many
    difference: Array | None = None  # mean - overall of every feature, (*sample_shape)


@dataclass(frozen=True)
class Rules:
    """A threshold tree that approximates the clustering."""

    text: str
    leaves: int
    fidelity: float  # share of rows to which tree and clustering give one label
    cost_ratio: float  # cost of the tree's clustering over that of the clustering itself
    features: list[str]  # that the tree may ask about


@dataclass(frozen=True)
class Ambiguity:
    """Where the clustering is unsure."""

    least_certain: list[Sample]
    pairs: list[tuple[int, int, int]]  # (a, b, rows near the border of a and b), most first
    margins: Array  # histogram of the margins: counts
    edges: Array  # its edges
    note: str  # how far the confidences may be believed
    kept: Array | None = None  # share of rows that kept their cluster, by tenth of the margins
    kept_in: str = ""  # what they kept it in: other restarts, or bootstrap draws


@dataclass(frozen=True)
class Explanation:
    """Everything that is known about a fitted clustering of X."""

    method: str
    n: int
    sample_shape: Shape
    feature_names: list[str]
    clusters: list[Cluster]
    ambiguity: Ambiguity
    rules: Rules | None
    stability: float | None  # mean over the clusters, weighted by size
    sizes: Array  # (k,)
    ids: dict[int, str] = field(default_factory=dict)  # of the rows that are shown
    texts: dict[int, str] = field(default_factory=dict)
    images: dict[int, Array] = field(default_factory=dict)  # (h, w) or (h, w, c)

    def to_dict(self) -> dict[str, Any]:
        """As JSON-able lists and numbers."""
        return plain(asdict(self))

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row per cluster."""
        import pandas as pd

        columns = ("index", "size", "share", "spread", "stability", "rule", "rule_precision")
        return pd.DataFrame(
            [{c: getattr(cluster, c) for c in columns} for cluster in self.clusters]
        )


def plain(value: Any) -> Any:
    """Lists for arrays and tuples, numbers for numpy's, strings for keys."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v) for v in value]
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item() if isinstance(value, np.generic) else value
