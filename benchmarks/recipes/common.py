"""What recipes share: TELL beside others on the sets its paper has not; k-meansNet's settings."""

from typing import Any

from benchmarks.data import Data
from benchmarks.methods import (
    AutoencoderKMeans,
    Estimator,
    KMeans,
    Method,
    Mixture,
    Pcx,
    PcxStart,
    Tell,
)
from pellucid import MLP, Conv, Training


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


# k-meansNet's networks. The pixels of an image of length one stay near 0.1, where a sigmoid output
# has no slope left and learns nothing: the output is linear. So is the code, and there is no
# dropout: both rebuild the images better (kmeansnet_grid).
KMEANSNET: dict[str, dict[str, Any]] = {
    "Raw": {"autoencoder": "identity", "alpha": 1e-3},
    "FCN": {
        "autoencoder": MLP(output="linear", weights="glorot"),
        "alpha": 1e-3,  # Section 4.4
    },
    "CNN": {
        "autoencoder": Conv("kmeansnet", output="linear"),
        "alpha": 1e-2,
        "pretrain": 20,
        "max_iter": 20,
    },
}


def kmeansnet(network: str, **changes: Any) -> Estimator:
    """k-meansNet on MNIST: reconstruction first, then network and centres together."""
    shared = {
        "n_clusters": 10,
        "scale": "norm",  # every image has length one (Section 4.1)
        "init": "k-means++",
        "pretrain": 40,
        "max_iter": 40,  # ours; the paper stops at 3,000
        "tol": 0.0,  # all run equally long, so that they compare
        "training": Training("adam", checkpoint_every=20),
    }
    return Estimator("KMeansNet", {**shared, **KMEANSNET[network], **changes})


def pcx_setting(k: int, n: int, **changes: Any) -> dict[str, Any]:
    """PC-X with `k` clusters on `n` samples: its defaults, and one length for every data set.

    The defaults were chosen on MNIST without its labels: benchmarks/search.py.
    """
    return {
        "n_clusters": k,
        "n_init": 1,  # a seed is a restart
        "max_iter": min(100, -(-5400 // -(-n // 256))),  # about 5,400 steps, on MNIST 20 epochs
        "tol": 0.0,  # all run equally long, so that losses compare
        **changes,
    }


def pcx_beside(k: int, n: int, **changes: Any) -> dict[str, Method]:
    """PC-X, its start and the shallow methods; `changes` are of PCX."""
    shared = pcx_setting(k, n, **changes)
    return {
        "PC-X": Pcx(shared),
        "AE + k-means": PcxStart(shared),
        "k-means": KMeans({"n_clusters": k, "n_init": 10}),
        "GMM": Mixture({"n_components": k}),
    }


def pcx_ablation(k: int, n: int) -> dict[str, Method]:
    """`pcx_beside` on images, the paper's other network, and the other columns of its Table 6."""
    shared = pcx_setting(k, n, autoencoder=Conv())
    full = {**shared, "autoencoder": MLP(weights="glorot")}
    random = {"init": "random", "kappa": 1.0, "empty": "keep"}  # "fixed after initialization"
    return pcx_beside(k, n, autoencoder=Conv()) | {
        "PC-X-no CI": Pcx({**shared, "ci_unit": False}),
        "PC-X, 500-500-2000-10": Pcx(full),
        "PC-X-no CI, 500-500-2000-10": Pcx({**full, "ci_unit": False}),
        "AE + k-means, 500-500-2000-10": PcxStart(full),
        "PC-X-Fix, 500-500-2000-10": Pcx({**full, **random}),
    }


def pcx_imbalanced(k: int, n: int, **changes: Any) -> dict[str, Method]:
    """`pcx_beside` with PC-X-IMBA, and without the start alone."""
    shared = pcx_setting(k, n, **changes)
    others = pcx_beside(k, n, **changes)
    del others["AE + k-means"]
    return {"PC-X-IMBA": Pcx({**shared, "imbalance": True})} | others
