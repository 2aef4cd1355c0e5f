"""Labelled data sets of the papers, from ``data_dir`` or from the libraries that own them.

With ``data_dir`` a loader reads ``NAME.npz`` (arrays X and y, perhaps names; never a pickle) and
compares its SHA-256 with the one known here, if there is one. Without it, scikit-learn or
torchvision download, check and cache the original in scikit-learn's data home.
Where a set has a training and a test part, the training part comes first.
"""

from __future__ import annotations

import hashlib
import importlib.util
import socket
import warnings
import zipfile
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.client import HTTPException
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn import datasets as sk
from sklearn.feature_extraction.text import TfidfVectorizer

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

PathArg = str | PathLike[str]

SHA256 = {
    "mnist.npz": "b8614df087cefcfe2566eddd52a22b6f664448c7d99a3f41545bb9b1a9dfbec8",
    "fashion_mnist.npz": "b124c3a208f43f55a91f5c45409a2ba59479168fffc5cb81a8da93160ed86d38",
    "usps.npz": "39831a038407f4bf7604bb8c19fbc534789a1eaefc8fca4297d580c7e5459401",
    "news20_tfidf2000.npz": "0a54f92115594d539aaebacc5496ce08ef125596b78d5bd1de6b7034f9a8fbdf",
    "cifar10_12k.npz": "59b60321affa50010ece78d0df5cac78a57e1dea308a901ae2a6421ab7d85ab9",
}
OPENML = {"mnist": 554, "fashion_mnist": 40996, "usps": 41082}
TIMEOUT = 30  # seconds without an answer; scikit-learn itself would wait for ever

FASHION = (
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
)  # fmt: skip
CIFAR10 = (
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
)  # fmt: skip
RCV1_ROOTS = ("CCAT", "ECAT", "GCAT", "MCAT")

# Krizhevsky 2009: 20 superclasses of 5 classes each, in the order of the coarse labels.
CIFAR100_SUPERCLASSES: dict[str, tuple[str, ...]] = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}
CIFAR100 = tuple(sorted(name for names in CIFAR100_SUPERCLASSES.values() for name in names))


@dataclass(frozen=True)
class LabelledData:
    """Samples ``X``, classes ``y`` in 0..k-1 with their names, and where they came from.

    ``extra`` holds whatever else the file had, such as the rows of published splits.
    """

    X: Any
    y: NDArray[np.int64]
    target_names: list[str]
    feature_names: list[str] | None = None
    source: str = ""
    extra: dict[str, NDArray[Any]] = field(default_factory=dict, repr=False)


def load_npz(path: PathArg, *, sha256: str | None = None) -> LabelledData:
    """Read one ``.npz`` with arrays X and y; ``sha256`` is compared when it is given."""
    path = Path(path).expanduser()
    if sha256 is not None:
        with path.open("rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
        if found != sha256:
            raise ValueError(
                f"{path} has sha256 {found}, expected {sha256}: "
                "fetch it again, or pass verify=False to read it as it is"
            )
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            arrays = dict(archive)
    except (ValueError, TypeError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        raise ValueError(f"{path} cannot be read as .npz: {error}") from error
    if not {"X", "y"} <= arrays.keys() or len(arrays["X"]) != len(arrays["y"]):
        shapes = {name: array.shape for name, array in arrays.items()}
        raise ValueError(f"{path} needs arrays X and y of one length, it has {shapes}")
    X, classes = arrays.pop("X"), arrays.pop("y").astype(np.int64)
    names, features = arrays.pop("target_names", None), arrays.pop("feature_names", None)
    return LabelledData(
        X,
        classes,
        [str(i) for i in np.unique(classes)] if names is None else names.tolist(),
        None if features is None else features.tolist(),
        str(path),
        arrays,
    )


def load_digits(*, data_dir: PathArg | None = None, verify: bool = True) -> LabelledData:
    """1,797 handwritten digits, 8x8 as 64 columns of 0 to 16 (float64).

    scikit-learn ships them, so ``data_dir`` and ``verify`` are not needed and not used.
    """
    digits = sk.load_digits()
    return LabelledData(
        digits.data,
        digits.target.astype(np.int64),
        [str(name) for name in digits.target_names],
        list(digits.feature_names),
        "scikit-learn load_digits",
    )


def load_mnist(*, data_dir: PathArg | None = None, verify: bool = True) -> LabelledData:
    """70,000 handwritten digits, 28x28 uint8: 60,000 for training, then 10,000 for testing."""
    if data_dir is not None:
        return _from_dir(data_dir, ["mnist.npz"], verify)
    X, digit, source = _openml("mnist")
    return LabelledData(
        X.reshape(-1, 28, 28).astype(np.uint8), digit, _digit_names(), source=source
    )


def load_fashion_mnist(*, data_dir: PathArg | None = None, verify: bool = True) -> LabelledData:
    """70,000 pictures of clothes, 28x28 uint8: 60,000 for training, then 10,000 for testing."""
    if data_dir is not None:
        return _from_dir(data_dir, ["fashion_mnist.npz"], verify)
    X, kind, source = _openml("fashion_mnist")
    return LabelledData(X.reshape(-1, 28, 28).astype(np.uint8), kind, list(FASHION), source=source)


def load_usps(*, data_dir: PathArg | None = None, verify: bool = True) -> LabelledData:
    """9,298 digits from envelopes, 16x16 float32 in [0, 1]: 7,291 for training, then 2,007."""
    if data_dir is not None:
        return _from_dir(data_dir, ["usps.npz"], verify)
    X, digit, source = _openml("usps")  # pixels in [-1, 1], digit d under the label d + 1
    X = ((X + 1) / 2).reshape(-1, 16, 16).astype(np.float32)
    return LabelledData(X, digit, _digit_names(), source=source)


def load_20newsgroups(*, data_dir: PathArg | None = None, verify: bool = True) -> LabelledData:
    """18,846 posts as CSR float32 tf-idf of the 2,000 most frequent words, rows of unit length.

    As in Deep k-Means: headers, footers and quotes kept, default tokeniser, no stop words. The
    file also has that paper's splits (``extra``); they refer to this order of the rows.
    """
    if data_dir is not None:
        return _as_csr(_from_dir(data_dir, ["news20_tfidf2000.npz"], verify))
    with _downloading("20 Newsgroups"):
        posts = sk.fetch_20newsgroups(subset="all")
    words = TfidfVectorizer(max_features=2000, dtype=np.float32)
    X = words.fit_transform(posts.data)
    return LabelledData(
        sparse.csr_array(X),
        posts.target.astype(np.int64),
        list(posts.target_names),
        words.get_feature_names_out().tolist(),
        "scikit-learn fetch_20newsgroups",
    )


def load_reuters(
    *,
    data_dir: PathArg | None = None,
    verify: bool = True,
    n_samples: int = 10_000,
    n_features: int = 2_000,
    random_state: int = 0,
) -> LabelledData:
    """A subset of RCV1 as CSR float32: news under exactly one of CCAT, ECAT, GCAT and MCAT.

    As in Deep k-Means: ``n_samples`` such documents, the ``n_features`` columns of the largest
    tf-idf sum among them, rows not normalised again. Which documents it drew the paper does not
    say; ``random_state`` makes our draw. With ``data_dir``, ``rcv1_tfidf2000.npz`` is read as it
    is.
    """
    if data_dir is not None:
        return _as_csr(_from_dir(data_dir, ["rcv1_tfidf2000.npz"], verify))
    with _downloading("RCV1"):
        rcv1 = sk.fetch_rcv1()
    topics = list(rcv1.target_names)
    roots = rcv1.target[:, [topics.index(root) for root in RCV1_ROOTS]].toarray()
    single = np.flatnonzero(roots.sum(axis=1) == 1)
    rng = np.random.default_rng(random_state)
    rows = rng.choice(single, size=min(n_samples, len(single)), replace=False)
    X = rcv1.data[rows]
    heaviest = np.argsort(-np.asarray(X.sum(axis=0)).ravel(), kind="stable")[:n_features]
    return LabelledData(
        sparse.csr_array(X[:, np.sort(heaviest)], dtype=np.float32),
        roots[rows].argmax(axis=1),
        list(RCV1_ROOTS),
        source=f"scikit-learn fetch_rcv1, random_state={random_state}",
        extra={"rows": rows},
    )


def load_cifar10(*, data_dir: PathArg | None = None, verify: bool = True) -> LabelledData:
    """60,000 photographs, 32x32x3 uint8: 50,000 for training, then 10,000 for testing.

    ``data_dir`` may hold ``cifar10.npz``, or else ``cifar10_12k.npz``: 1,000 + 200 of each class.
    """
    if data_dir is not None:
        return _from_dir(data_dir, ["cifar10.npz", "cifar10_12k.npz"], verify)
    X, kind, source = _torchvision("CIFAR10")
    return LabelledData(X, kind, list(CIFAR10), source=source)


def load_cifar100(
    *,
    superclass: int | str | None = None,
    data_dir: PathArg | None = None,
    verify: bool = True,
) -> LabelledData:
    """60,000 photographs of 100 classes, 32x32x3 uint8, or the 3,000 of one superclass.

    Parameters
    ----------
    superclass : int in 0..19, or one of the names in ``CIFAR100_SUPERCLASSES``
        Keeps its five classes, as 0..4.
    """
    members = None if superclass is None else _superclass(superclass)
    if data_dir is not None:
        data = _from_dir(data_dir, ["cifar100.npz"], verify)
        X, kind, source = data.X, data.y, data.source
    else:
        X, kind, source = _torchvision("CIFAR100")
    if members is None:
        return LabelledData(X, kind, list(CIFAR100), source=source)
    codes = np.array([CIFAR100.index(name) for name in members])
    rows = np.flatnonzero(np.isin(kind, codes))
    return LabelledData(X[rows], np.searchsorted(codes, kind[rows]), list(members), source=source)


def _superclass(superclass: int | str) -> tuple[str, ...]:
    names = list(CIFAR100_SUPERCLASSES)
    if superclass in names:
        return CIFAR100_SUPERCLASSES[str(superclass)]
    if isinstance(superclass, str) or not 0 <= superclass < len(names):
        raise ValueError(f"superclass={superclass!r}: choose 0 to 19 or one of {names}")
    return CIFAR100_SUPERCLASSES[names[superclass]]


def _digit_names() -> list[str]:
    return [str(digit) for digit in range(10)]


def _from_dir(data_dir: PathArg, names: Sequence[str], verify: bool) -> LabelledData:
    folder = Path(data_dir).expanduser()
    path = next((folder / name for name in names if (folder / name).is_file()), None)
    if path is None:
        there = sorted(p.name for p in folder.glob("*.npz"))
        raise FileNotFoundError(
            f"data_dir={str(data_dir)!r} has no {' or '.join(names)}; it has {there or 'no .npz'}"
        )
    return load_npz(path, sha256=SHA256.get(path.name) if verify else None)


def _as_csr(data: LabelledData) -> LabelledData:
    return LabelledData(**(vars(data) | {"X": sparse.csr_array(data.X)}))


@contextmanager
def _downloading(name: str) -> Iterator[None]:
    before = socket.getdefaulttimeout()
    socket.setdefaulttimeout(TIMEOUT)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="A network error|Retry downloading")
            yield
    except (OSError, HTTPException, RuntimeError) as error:
        raise OSError(
            f"{name} could not be downloaded ({error}): pass data_dir= with its .npz, or run once "
            f"where there is a network and copy {sk.get_data_home()}"
        ) from error
    finally:
        socket.setdefaulttimeout(before)


def _openml(name: str) -> tuple[NDArray[Any], NDArray[np.int64], str]:
    number = OPENML[name]
    # pandas reads the file in seconds and liac-arff in a minute, but pandas may be absent.
    how: dict[str, Any] = {"parser": "liac-arff"}
    if importlib.util.find_spec("pandas"):
        # scikit-learn 1.9 trips over the categories that pandas 3.1 infers: no categories then.
        how = {"parser": "pandas", "read_csv_kwargs": {"dtype": None}}
    with _downloading(name):
        X, labels = sk.fetch_openml(data_id=number, as_frame=False, return_X_y=True, **how)
    digits = np.char.strip(labels.astype(str), "'")
    classes = np.unique(digits.astype(np.int64), return_inverse=True)[1]
    return X, classes, f"OpenML {number}"


def _torchvision(name: str) -> tuple[NDArray[np.uint8], NDArray[np.int64], str]:
    try:
        from torchvision import datasets as tv
    except ImportError as error:
        raise ImportError(
            f"{name} is downloaded by torchvision, which is not installed: "
            "pip install 'pellucid[vision]', or pass data_dir="
        ) from error
    root = Path(sk.get_data_home()) / "torchvision"
    with _downloading(name):
        parts = [getattr(tv, name)(root, train=train, download=True) for train in (True, False)]
    X = np.concatenate([part.data for part in parts])
    classes = np.concatenate([np.asarray(part.targets, dtype=np.int64) for part in parts])
    return X, classes, f"torchvision {name}"
