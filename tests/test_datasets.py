"""Loaders read files, refuse broken ones, use scikit-learn's cache, and fail in one line."""

from __future__ import annotations

import codecs
import gzip
import hashlib
import json
import pickle
import socket
import subprocess
import sys
import time
import types
import urllib.request
from pathlib import Path

import joblib
import numpy as np
import pytest
from scipy import sparse
from sklearn.utils import Bunch

from pellucid import datasets
from pellucid.data import datasets as module

X = np.arange(24, dtype=np.uint8).reshape(6, 2, 2)
Y = np.array([0, 1, 2, 0, 1, 2], dtype=np.uint8)

FROM_DIR = {
    "mnist": datasets.load_mnist,
    "fashion_mnist": datasets.load_fashion_mnist,
    "usps": datasets.load_usps,
    "news20_tfidf2000": datasets.load_20newsgroups,
    "rcv1_tfidf2000": datasets.load_reuters,
    "cifar10": datasets.load_cifar10,
    "cifar100": datasets.load_cifar100,
}
FETCHED = [
    datasets.load_mnist,
    datasets.load_fashion_mnist,
    datasets.load_usps,
    datasets.load_20newsgroups,
    datasets.load_reuters,
]


@pytest.fixture
def data_home(tmp_path, monkeypatch):
    """scikit-learn's cache in a folder of its own, and a network that refuses at once."""
    monkeypatch.setenv("SCIKIT_LEARN_DATA", str(tmp_path))
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # the discard port: nobody listens
    monkeypatch.setenv("no_proxy", "")
    monkeypatch.setattr(urllib.request, "_opener", None)  # it remembers the proxies it saw first
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # between its retries
    return tmp_path


def save(folder: Path, name: str, **arrays) -> Path:
    path = folder / f"{name}.npz"
    np.savez(path, **({"X": X, "y": Y} | arrays))
    return path


# Files


def test_digits_come_with_scikit_learn():
    digits = datasets.load_digits()
    assert digits.X.shape == (1797, 64) and digits.X.max() == 16
    assert digits.y[:5].tolist() == [0, 1, 2, 3, 4] and digits.y.dtype == np.int64
    assert digits.target_names == list("0123456789")
    assert digits.feature_names[:2] == ["pixel_0_0", "pixel_0_1"]


@pytest.mark.parametrize("name", FROM_DIR)
def test_a_file_is_read_as_it_is(name, tmp_path):
    flat = X.reshape(6, 4) if "tfidf" in name else X
    path = save(tmp_path, name, X=flat)
    data = FROM_DIR[name](data_dir=tmp_path, verify=False)
    rows = data.X.toarray() if sparse.issparse(data.X) else data.X
    np.testing.assert_array_equal(rows, flat)
    assert sparse.issparse(data.X) == ("tfidf" in name)
    assert data.y.tolist() == Y.tolist() and data.y.dtype == np.int64
    assert data.source == str(path)


def test_names_and_other_arrays_are_kept(tmp_path):
    path = save(
        tmp_path,
        "any",
        target_names=np.array(["a", "b", "c"]),
        feature_names=np.array(["p", "q"]),
        rows=np.arange(3),
    )
    data = datasets.load_npz(str(path))
    assert (data.target_names, data.feature_names) == (["a", "b", "c"], ["p", "q"])
    assert data.extra.keys() == {"rows"} and data.extra["rows"].tolist() == [0, 1, 2]
    plain = datasets.load_npz(save(tmp_path, "plain"))
    assert (plain.target_names, plain.feature_names) == (["0", "1", "2"], None)


def test_checksum(tmp_path):
    path = save(tmp_path, "usps")
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    assert datasets.load_npz(path, sha256=found).y.tolist() == Y.tolist()
    expected = module.SHA256["usps.npz"]
    with pytest.raises(ValueError, match=f"{found}, expected {expected}: .*verify=False"):
        datasets.load_usps(data_dir=tmp_path)


def test_broken_files(tmp_path):
    path = save(tmp_path, "whole")
    cut = tmp_path / "cut.npz"
    cut.write_bytes(path.read_bytes()[:200])
    with pytest.raises(ValueError, match=r"cut\.npz cannot be read as \.npz"):
        datasets.load_npz(cut)
    np.save(tmp_path / "plain.npy", X)
    with pytest.raises(ValueError, match=r"plain\.npy cannot be read as \.npz"):
        datasets.load_npz(tmp_path / "plain.npy")
    with pytest.raises(ValueError, match=r"needs arrays X and y .*'y': \(5,\)"):
        datasets.load_npz(save(tmp_path, "short", y=Y[:5]))
    np.savez(tmp_path / "no_y.npz", X=X)
    with pytest.raises(ValueError, match=r"needs arrays X and y .*it has \{'X': \(6, 2, 2\)\}"):
        datasets.load_npz(tmp_path / "no_y.npz")


def test_a_pickle_in_a_file_is_not_run(tmp_path):
    save(tmp_path, "mnist", X=np.array([print] * 6, dtype=object))
    with pytest.raises(ValueError, match="allow_pickle=False"):
        datasets.load_mnist(data_dir=tmp_path, verify=False)


def test_a_missing_file_names_what_is_there(tmp_path):
    save(tmp_path, "other")
    with pytest.raises(FileNotFoundError, match=r"has no mnist\.npz; it has \['other\.npz'\]"):
        datasets.load_mnist(data_dir=tmp_path)
    with pytest.raises(FileNotFoundError, match=r"cifar10\.npz or cifar10_12k\.npz"):
        datasets.load_cifar10(data_dir=tmp_path)


def test_cifar10_prefers_the_whole_set(tmp_path):
    save(tmp_path, "cifar10_12k")
    assert "12k" in datasets.load_cifar10(data_dir=tmp_path, verify=False).source
    save(tmp_path, "cifar10")
    assert "12k" not in datasets.load_cifar10(data_dir=tmp_path).source


# CIFAR-100


def test_the_superclasses_partition_the_classes():
    assert len(datasets.CIFAR100_SUPERCLASSES) == 20
    assert list(datasets.CIFAR100_SUPERCLASSES) == sorted(datasets.CIFAR100_SUPERCLASSES)
    assert {len(names) for names in datasets.CIFAR100_SUPERCLASSES.values()} == {5}
    assert len(set(module.CIFAR100)) == 100
    assert all(list(n) == sorted(n) for n in datasets.CIFAR100_SUPERCLASSES.values())
    # Positions in the published list of fine labels.
    positions = {0: "apple", 4: "beaver", 30: "dolphin", 55: "otter", 72: "seal", 99: "worm"}
    assert {i: module.CIFAR100[i] for i in positions} == positions


@pytest.mark.parametrize("superclass", [0, np.int64(0), "aquatic_mammals"])
def test_a_superclass_of_cifar100(superclass, tmp_path):
    fine = np.array([4, 0, 30, 95, 72, 55, 1, 4])
    save(tmp_path, "cifar100", X=np.arange(8), y=fine)
    data = datasets.load_cifar100(superclass=superclass, data_dir=tmp_path)
    assert data.X.tolist() == [0, 2, 3, 4, 5, 7]
    assert data.y.tolist() == [0, 1, 4, 3, 2, 0]
    assert data.target_names == ["beaver", "dolphin", "otter", "seal", "whale"]
    assert len(datasets.load_cifar100(data_dir=tmp_path).target_names) == 100


@pytest.mark.parametrize("superclass", [20, -1, "mammals"])
def test_an_unknown_superclass(superclass, tmp_path):
    with pytest.raises(ValueError, match=r"0 to 19 or one of \['aquatic_mammals'"):
        datasets.load_cifar100(superclass=superclass, data_dir=tmp_path)


def test_cifar_through_torchvision(monkeypatch, data_home):
    class Fake:
        def __init__(self, root, train, download):
            assert download and Path(root) == data_home / "torchvision"
            self.data = np.full((3, 32, 32, 3), train, np.uint8)
            self.targets = [0, 1, 2] if train else [7, 8, 9]

    fake = types.ModuleType("torchvision")
    fake.datasets = types.SimpleNamespace(CIFAR10=Fake, CIFAR100=Fake)
    monkeypatch.setitem(sys.modules, "torchvision", fake)
    data = datasets.load_cifar10()
    assert data.X.shape == (6, 32, 32, 3) and data.X[:3].all() and not data.X[3:].any()
    assert data.y.tolist() == [0, 1, 2, 7, 8, 9] and data.target_names[7] == "horse"
    assert datasets.load_cifar100().y.tolist() == [0, 1, 2, 7, 8, 9]


def test_torchvision_absent(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision", None)
    with pytest.raises(ImportError, match=r"pip install 'pellucid\[vision\]', or pass data_dir="):
        datasets.load_cifar10()


# What the libraries have cached, through their own code


@pytest.mark.parametrize("parser", ["pandas", "liac-arff"])
def test_usps_from_the_openml_cache(data_home, monkeypatch, parser):
    if parser == "liac-arff":
        monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    pixels = np.random.default_rng(0).uniform(-1, 1, (20, 256)).round(3)
    labels = np.arange(20) % 10 + 1
    cache_openml(data_home, 41082, pixels, labels)
    data = datasets.load_usps()
    assert data.X.shape == (20, 16, 16) and data.X.dtype == np.float32
    np.testing.assert_allclose(data.X.reshape(20, 256), (pixels + 1) / 2, atol=1e-6)
    assert data.y.tolist() == (labels - 1).tolist()
    assert data.source == "OpenML 41082"


@pytest.mark.parametrize(
    ("load", "number", "name"),
    [(datasets.load_mnist, 554, "7"), (datasets.load_fashion_mnist, 40996, "Sneaker")],
)
def test_images_from_the_openml_cache(load, number, name, data_home):
    pixels = np.random.default_rng(0).integers(0, 256, (10, 784))
    cache_openml(data_home, number, pixels, np.arange(10)[::-1])
    data = load()
    assert data.X.dtype == np.uint8
    np.testing.assert_array_equal(data.X.reshape(10, 784), pixels)
    assert data.y.tolist() == list(range(10))[::-1] and data.target_names[7] == name


def cache_openml(home: Path, number: int, pixels: np.ndarray, labels: np.ndarray) -> None:
    """The files that scikit-learn keeps after a download."""
    names = [f"p{i}" for i in range(pixels.shape[1])]
    kinds = ",".join(map(str, sorted(set(labels.tolist()))))
    lines = ["@relation r", *(f"@attribute {name} real" for name in names)]
    lines += [f"@attribute class {{{kinds}}}", "@data"]
    lines += [",".join(map(str, [*x, y])) for x, y in zip(pixels, labels, strict=True)]
    arff = "\n".join(lines).encode() + b"\n"
    features = [
        {
            "index": str(i),
            "name": name,
            "data_type": "nominal" if name == "class" else "numeric",
            "is_target": str(name == "class").lower(),
            "is_ignore": "false",
            "is_row_identifier": "false",
            "number_of_missing_values": "0",
        }
        for i, name in enumerate([*names, "class"])
    ]
    description = {
        "id": str(number),
        "name": "r",
        "version": "1",
        "description": "",
        "format": "ARFF",
        "status": "active",
        "url": f"https://www.openml.org/data/v1/download/{number}",
        "md5_checksum": hashlib.md5(arff).hexdigest(),
    }
    qualities = {"quality": [{"name": "NumberOfInstances", "value": str(len(pixels))}]}
    answers = {
        f"api/v1/json/data/{number}": json.dumps({"data_set_description": description}),
        f"api/v1/json/data/features/{number}": json.dumps({"data_features": {"feature": features}}),
        f"api/v1/json/data/qualities/{number}": json.dumps({"data_qualities": qualities}),
        f"data/v1/download/{number}": arff.decode(),
    }
    for path, text in answers.items():
        file = home / "openml" / "openml.org" / f"{path}.gz"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(gzip.compress(text.encode()))


def test_20newsgroups_from_the_cache(data_home):
    def part(*posts):
        return Bunch(
            data=[text for text, _ in posts],
            target=np.array([kind for _, kind in posts]),
            target_names=["comp", "rec"],
            filenames=np.array([text[:3] for text, _ in posts]),
        )

    cache = {
        "train": part(("disk drive disk", 0), ("the hockey game", 1)),
        "test": part(("fast disk", 0), ("a game a game", 1)),
    }
    packed = codecs.encode(pickle.dumps(cache), "zlib_codec")
    (data_home / "20news-bydate_py3.pkz").write_bytes(packed)
    data = datasets.load_20newsgroups()
    assert sparse.issparse(data.X) and data.X.dtype == np.float32 and data.X.format == "csr"
    assert data.feature_names == ["disk", "drive", "fast", "game", "hockey", "the"]
    np.testing.assert_allclose(data.X.multiply(data.X).sum(axis=1), 1, rtol=1e-6)
    assert data.target_names == ["comp", "rec"]
    # Shuffled as scikit-learn does by default; the two posts on disks stay in their class.
    disks = data.X[:, [0]].toarray().ravel() > 0
    np.testing.assert_array_equal(data.y == 0, disks)


@pytest.fixture
def rcv1(data_home):
    """Six documents in RCV1's cache; the columns of C and E topics and of a deeper one."""
    words = np.array(
        [
            [0.1, 0.9, 0.0, 0.2, 0.0],
            [0.2, 0.8, 0.0, 0.1, 0.0],
            [0.9, 0.9, 9.0, 9.0, 9.0],  # two roots: left out
            [0.3, 0.1, 0.0, 0.7, 0.0],
            [0.1, 0.1, 0.0, 0.6, 0.0],
            [0.9, 0.9, 9.0, 9.0, 9.0],  # no root: left out
        ]
    )
    topics = ["C15", "CCAT", "ECAT", "GCAT", "MCAT"]
    marks = [[1, 1, 0, 0, 0], [0, 1, 0, 0, 0], [0, 1, 1, 0, 0]]
    marks += [[0, 0, 0, 0, 1], [0, 0, 0, 1, 0], [1, 0, 0, 0, 0]]
    folder = data_home / "RCV1"
    folder.mkdir()
    joblib.dump(sparse.csr_matrix(words), folder / "samples_py3.pkl")
    joblib.dump(np.arange(6, dtype=np.uint32), folder / "sample_id_py3.pkl")
    joblib.dump(sparse.csr_matrix(np.array(marks, np.uint8)), folder / "sample_topics_py3.pkl")
    joblib.dump(np.array(topics, dtype=object), folder / "topics_names_py3.pkl")
    return words


def test_reuters_keeps_one_root_and_the_heaviest_columns(rcv1):
    data = datasets.load_reuters(n_features=3)
    rows = data.extra["rows"]
    assert sorted(rows) == [0, 1, 3, 4]
    assert data.target_names == ["CCAT", "ECAT", "GCAT", "MCAT"]
    assert data.y.tolist() == [{0: 0, 1: 0, 3: 3, 4: 2}[row] for row in rows]
    # Summed over the four rows: 0.7, 1.9, 0, 1.6, 0.
    assert data.X.dtype == np.float32
    np.testing.assert_allclose(data.X.toarray(), rcv1[rows][:, [0, 1, 3]], rtol=1e-6)


def test_reuters_draws_with_its_seed(rcv1):
    draws = [
        datasets.load_reuters(n_samples=2, random_state=seed).extra["rows"].tolist()
        for seed in (0, 0, 1, 2, 3)
    ]
    assert draws[0] == draws[1] and len(set(map(tuple, draws))) > 1
    assert all(len(set(rows)) == 2 and set(rows) <= {0, 1, 3, 4} for rows in draws)


# Refused downloads


@pytest.mark.parametrize("load", FETCHED)
def test_a_refused_download_is_one_clear_error(load, data_home):
    started = time.monotonic()
    with pytest.raises(OSError, match=r"could not be downloaded \(.*\): pass data_dir=") as caught:
        load()
    assert time.monotonic() - started < 20
    assert str(data_home) in str(caught.value)
    assert socket.getdefaulttimeout() is None


def test_a_silent_server_is_given_up(data_home, monkeypatch):
    """A machine that accepts and never answers must not hold the caller for ever."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        proxy = f"http://127.0.0.1:{server.getsockname()[1]}"
        monkeypatch.setenv("https_proxy", proxy)
        monkeypatch.setattr(module, "TIMEOUT", 0.2)
        with pytest.raises(OSError, match=r"timed out.*pass data_dir="):
            datasets.load_20newsgroups()


def test_import_opens_no_connection_and_needs_no_torchvision():
    code = (
        "import socket, sys; socket.socket.connect = None; socket.getaddrinfo = None\n"
        "import pellucid.datasets\n"
        "assert 'torchvision' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


# The real files


@pytest.mark.parametrize(
    ("load", "shape", "counts"),
    [
        (datasets.load_mnist, (70000, 28, 28), [6903, 7877, 6990, 7141, 6824]),
        (datasets.load_fashion_mnist, (70000, 28, 28), [7000] * 5),
        (datasets.load_usps, (9298, 16, 16), [1553, 1269, 929, 824, 852]),
        (datasets.load_20newsgroups, (18846, 2000), [799, 973, 985, 982, 963]),
        (datasets.load_cifar10, (12000, 32, 32, 3), [1200] * 5),
    ],
)
def test_real_files(load, shape, counts, data_dir):
    data = load(data_dir=data_dir)
    assert data.X.shape == shape
    assert np.bincount(data.y)[:5].tolist() == counts
    assert len(data.target_names) == data.y.max() + 1
    assert data.feature_names is None or len(data.feature_names) == shape[1]
