"""Clustering you can see through: k-means as neural layers whose weights are the centres."""

from pellucid.algorithms import TELL, Centers
from pellucid.autoencoders import MLP, Conv, Identity
from pellucid.persistence import load
from pellucid.training import Training

__version__ = "0.1.0.dev0"

__all__ = ["MLP", "TELL", "Centers", "Conv", "Identity", "Training", "__version__", "load"]
