"""One page per paper."""

from pellucid.algorithms.deep_kmeans import DeepKMeans
from pellucid.algorithms.kernelnet import KernelNet
from pellucid.algorithms.kmeansnet import KMeansNet
from pellucid.algorithms.pcx import PCX
from pellucid.algorithms.tell import TELL
from pellucid.training.centers import Centers

__all__ = ["PCX", "TELL", "Centers", "DeepKMeans", "KMeansNet", "KernelNet"]
