"""Labelled data sets of the papers: ``pellucid.datasets.load_mnist()`` and its like."""

from pellucid.data.datasets import (
    CIFAR100_SUPERCLASSES,
    LabelledData,
    load_20newsgroups,
    load_cifar10,
    load_cifar100,
    load_digits,
    load_fashion_mnist,
    load_mnist,
    load_npz,
    load_reuters,
    load_usps,
)

__all__ = [
    "CIFAR100_SUPERCLASSES",
    "LabelledData",
    "load_20newsgroups",
    "load_cifar10",
    "load_cifar100",
    "load_digits",
    "load_fashion_mnist",
    "load_mnist",
    "load_npz",
    "load_reuters",
    "load_usps",
]
