"""TELL, TwoStage, AE + k-means and k-means on one data set, for the sets the paper has not."""

from typing import Any

from benchmarks.data import Data
from benchmarks.methods import AutoencoderKMeans, KMeans, Method, Mixture, Pcx, PcxStart, Tell
from pellucid import Conv, Training


def side_by_side(k: int, **changes: Any) -> dict[str, Method]:
    """The four methods with `k` clusters; `changes` are of TELL's parameters."""
    shared = {
        "n_clusters": k,
        "autoencoder": Conv(),
        "n_init": 1,  # a seed is a restart
        "pretrain": 30,  # ours: a warm start
        "init": "k-means",  # on the sphere of the pretrained embedding
        "tol": 0.0,  # all run equally long, so that losses compare
        "lam": 0.1,  # ten times the published weight, since there are few epochs
        "max_iter": 40,
        "training": Training("adam", lr=1e-3),
        **changes,
    }
    return {
        "TELL": Tell(shared),
        "TELL-TwoStage": Tell({**shared, "representation": "frozen"}),
        "AE + k-means": AutoencoderKMeans(shared),
        "k-means": KMeans({"n_clusters": k, "n_init": 10}),
    }


def twelve_thousand(name: str) -> Data:
    """12,000 rows of a set, what two cores do in minutes."""
    return Data(name, rows=12_000)


# One setting for every data set, chosen on MNIST by the agreement of seeds: benchmarks/search.py.
PCX_SETTING: dict[str, Any] = {
    "n_init": 1,  # a seed is a restart
    "max_iter": 30,
    "tol": 0.0,  # all run equally long, so that losses compare
    "training": Training("adam", lr=1e-3),
}


def pcx_beside(k: int, **changes: Any) -> dict[str, Method]:
    """PC-X, its start and the shallow methods with `k` clusters; `changes` are of PCX."""
    shared = {"n_clusters": k, **PCX_SETTING, **changes}
    return {
        "PC-X": Pcx(shared),
        "AE + k-means": PcxStart(shared),
        "k-means": KMeans({"n_clusters": k, "n_init": 10}),
        "GMM": Mixture({"n_components": k}),
    }


def pcx_ablation(k: int, **changes: Any) -> dict[str, Method]:
    """`pcx_beside` and the other columns of PC-X's Table 6."""
    shared = {"n_clusters": k, **PCX_SETTING, **changes}
    random = {"init": "random", "kappa": 1.0, "empty": "keep"}  # "fixed after initialization"
    return pcx_beside(k, **changes) | {
        "PC-X-no CI": Pcx({**shared, "ci_unit": False}),
        "PC-X-Fix": Pcx({**shared, **random}),
        "PC-X-Fix from the start": Pcx({**shared, "kappa": 1.0, "empty": "keep"}),
    }


def pcx_imbalanced(k: int, **changes: Any) -> dict[str, Method]:
    """`pcx_beside` with PC-X-IMBA."""
    shared = {"n_clusters": k, **PCX_SETTING, **changes}
    return {"PC-X-IMBA": Pcx({**shared, "imbalance": True})} | pcx_beside(k, **changes)
