"""Any input to batches: arrays, files on disk, tensors, tables, sparse rows, torch Datasets."""

from pellucid.data.batches import Batch, Batches, open_data, shuffled
from pellucid.data.scaling import Scaler, ScalerKind

__all__ = ["Batch", "Batches", "Scaler", "ScalerKind", "open_data", "shuffled"]
