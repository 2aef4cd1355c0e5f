"""Clustering you can see through: k-means as neural layers whose weights are the centres."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pellucid.algorithms import PCX as PCX
    from pellucid.algorithms import TELL as TELL
    from pellucid.algorithms import Centers as Centers
    from pellucid.algorithms import DeepKMeans as DeepKMeans
    from pellucid.algorithms import KernelNet as KernelNet
    from pellucid.algorithms import KMeansNet as KMeansNet
    from pellucid.autoencoders import MLP as MLP
    from pellucid.autoencoders import Conv as Conv
    from pellucid.autoencoders import Identity as Identity
    from pellucid.persistence import load as load
    from pellucid.training import Training as Training

__version__ = "0.1.0.dev0"

# Torch takes seconds to import; ``pellucid --help`` should not wait for it.
_HOMES = {
    "MLP": "autoencoders",
    "PCX": "algorithms",
    "TELL": "algorithms",
    "Centers": "algorithms",
    "DeepKMeans": "algorithms",
    "KMeansNet": "algorithms",
    "KernelNet": "algorithms",
    "Conv": "autoencoders",
    "Identity": "autoencoders",
    "Training": "training",
    "load": "persistence",
}

__all__ = [
    "MLP",
    "PCX",
    "TELL",
    "Centers",
    "Conv",
    "DeepKMeans",
    "Identity",
    "KMeansNet",
    "KernelNet",
    "Training",
    "__version__",
    "load",
]
# After ``import pellucid`` alone.
_ROOMS = {"datasets", "explain", "metrics", "nn", "persistence", "plots", "report"}


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return import_module(f"pellucid.{name}")
    if name not in _HOMES:
        raise AttributeError(f"module 'pellucid' has no attribute {name!r}")
    value = getattr(import_module(f"pellucid.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
