"""A fitted estimator as a folder: ``config.json`` and ``weights.safetensors``, no pickle.

===================  ==============================================================================
config.json          schema and pellucid version, the class by name, its parameters, and the fitted
                     attributes that are plain values; where an array belongs, its name and shape
weights.safetensors  the arrays, and the state dict of `module_` under ``module_.<name>``
===================  ==============================================================================

Reading runs no code from the files: a class name is looked up in a table and never imported, and
the network is rebuilt from the parameters before its weights are filled in. Everything is checked
before anything is returned.

Fitted attributes are those whose names end in one underscore. Parameters come back equal, with two
exceptions: a ``random_state`` that is a generator rather than a number is stored as None, and an
``nn.Module`` of the user's own has to be handed in again, ``load(path, autoencoder=module)``.
"""

from __future__ import annotations

import ctypes
import json
import math
import os
import secrets
import shutil
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path, PurePath
from typing import Any, TypeVar

import numpy as np
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save as serialized
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import Tensor, nn

from pellucid.data import Scaler
from pellucid.training import isolated
from pellucid.typing import Array

__all__ = ["SCHEMA", "load", "peek", "read_config", "read_weights", "register", "save", "writable"]

FORMAT, SCHEMA = "pellucid model", 1
CONFIG, WEIGHTS = "config.json", "weights.safetensors"

Kind = TypeVar("Kind", bound=type)

# Where the classes that a file may name live. They are imported when one is needed: the algorithms
# stand above this room. A new algorithm or spec is one more line.
KNOWN: dict[str, str] = {
    "TELL": "pellucid.algorithms",
    "DeepKMeans": "pellucid.algorithms",
    "KMeansNet": "pellucid.algorithms",
    "PCX": "pellucid.algorithms",
    "KernelNet": "pellucid.algorithms",
    "Centers": "pellucid.algorithms",
    "Training": "pellucid.training",
    "MLP": "pellucid.autoencoders",
    "Conv": "pellucid.autoencoders",
    "Identity": "pellucid.autoencoders",
}
_registered: dict[str, type] = {}


def register(cls: Kind) -> Kind:
    """Let `save` and `load` know an estimator or spec of your own; usable as a decorator."""
    if cls.__name__ in KNOWN:
        raise ValueError(f"pellucid has a class {cls.__name__} of its own: choose another name.")
    _registered[cls.__name__] = cls
    return cls


def save(est: Any, path: str | os.PathLike[str]) -> None:
    """Write the fitted estimator into the folder `path`, all of it or nothing.

    A folder that holds an earlier model is replaced in one step; any other one is refused.
    """
    check_is_fitted(est)
    target = writable(path)
    packer = Packer()
    config = {
        "format": FORMAT,
        "schema": SCHEMA,
        "pellucid": version(),
        "class": class_name(est, type(est).__name__),
        "params": packer.params(est, "params"),
        "fitted": {name: packer.pack(getattr(est, name), name) for name in fitted_names(est)},
    }
    with replacing(target) as fresh:
        # Not save_file: it makes files that nobody but their owner can read.
        write(fresh / WEIGHTS, serialized(packer.tensors))
        write(fresh / CONFIG, f"{laid_out(config)}\n".encode())


def load(path: str | os.PathLike[str], *, autoencoder: nn.Module | None = None) -> Any:
    """The estimator that `save` wrote into the folder `path`, on the CPU.

    Parameters
    ----------
    path : path
    autoencoder : nn.Module, optional
        The network, for a model that was fitted with one of the user's own: a file cannot hold
        its code. It is copied, and the copy gets the saved weights.
    """
    folder = Path(path)
    config, tensors = read_config(folder), read_weights(folder)
    reader = Unpacker(folder, tensors, autoencoder)
    est = reader.estimator(config)
    est.module_ = reader.module(est)
    reader.finish()
    return est


def peek(path: str | os.PathLike[str]) -> Any:
    """The saved estimator without its network: parameters and all other fitted attributes."""
    folder = Path(path)
    return Unpacker(folder, read_weights(folder), placeholder=True).estimator(read_config(folder))


# Reading -------------------------------------------------------------------------------------


def read_config(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What ``config.json`` says, checked: format, schema and sections."""
    file = existing(Path(path), CONFIG)
    try:
        config = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{file} is damaged: it is not valid JSON ({error}).") from error
    if not isinstance(config, dict) or config.get("format") != FORMAT:
        raise ValueError(f"{file} does not describe a pellucid model.")
    schema = config.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise ValueError(f"{file} is damaged: its schema version is {schema!r}.")
    if schema > SCHEMA:
        raise ValueError(
            f"{file} has schema version {schema}, written by pellucid {config.get('pellucid')}; "
            f"this is pellucid {version()}, which reads versions up to {SCHEMA}. Upgrade pellucid."
        )
    for name, kind in (("class", str), ("params", dict), ("fitted", dict)):
        if not isinstance(config.get(name), kind):
            raise ValueError(f"{file} is damaged: {name!r} is missing or of a wrong kind.")
    return config


def read_weights(folder: Path) -> dict[str, Tensor]:
    """The tensors, in memory of their own."""
    file = existing(folder, WEIGHTS)
    try:
        with safe_open(file, "pt") as content:
            return {n: content.get_tensor(n).clone() for n in content.keys()}
    except SafetensorError as error:
        raise ValueError(f"{file} is damaged or cut short ({error}).") from error


def existing(folder: Path, name: str) -> Path:
    """The file `name` in `folder`, or an error that says what is missing."""
    file = folder / name
    if file.is_file():
        return file
    if folder.is_dir():
        raise FileNotFoundError(f"{file} is missing: {folder} is not a complete saved model.")
    spare = retired(folder.resolve())
    hint = f" A save was cut short; the model from before it is {spare}." if spare.is_dir() else ""
    raise FileNotFoundError(f"{folder} is not a folder with a saved model.{hint}")


def version() -> str:
    """This package's, from its front door, which stands above this room."""
    return str(sys.modules["pellucid"].__version__)


def lookup(name: str) -> type | None:
    """The class called `name`, if it is one of those that may be saved."""
    if name in KNOWN:
        return getattr(import_module(KNOWN[name]), name)
    return _registered.get(name)


class LoadError(ValueError):
    """A folder that no model can be read from; the message names file and place."""


class Unpacker:
    """JSON and tensors back into Python values, with errors that name the file and the place."""

    def __init__(
        self,
        folder: Path,
        tensors: dict[str, Tensor],
        autoencoder: nn.Module | None = None,
        placeholder: bool = False,
    ) -> None:
        self.config, self.weights = folder / CONFIG, folder / WEIGHTS
        self.tensors = tensors
        self.unused = set(tensors)
        self.autoencoder = autoencoder
        self.placeholder = placeholder  # an empty module stands in for `autoencoder`
        self.asked = False  # whether the model needs `autoencoder`

    def estimator(self, config: Mapping[str, Any]) -> Any:
        """The estimator with everything but its network."""
        name = config["class"]
        cls = lookup(name)
        if cls is None or not hasattr(cls, "_build_module"):
            known = sorted({*KNOWN, *_registered})
            raise LoadError(
                f"{self.config}: {name!r} is not an estimator that pellucid knows (it knows "
                f"{known}). A class of your own is made known by pellucid.persistence.register."
            )
        est = self.construct(cls, config["params"], "params")
        for attribute, value in self.fitted(config["fitted"]).items():
            setattr(est, attribute, value)
        return est

    def construct(self, cls: type, params: Any, where: str) -> Any:
        given = {n: self.unpack(v, f"{where}.{n}") for n, v in dict(params).items()}
        unknown = sorted(given.keys() - set(cls._get_param_names()))  # type: ignore[attr-defined]
        if unknown:
            raise LoadError(
                f"{self.config}: {cls.__name__} has no parameter {', '.join(unknown)} here."
            )
        return cls(**given)

    def unpack(self, value: Any, where: str) -> Any:
        """The value that `Packer.pack` was given."""
        try:
            return self._unpack(value, where)
        except LoadError:
            raise
        except (LookupError, TypeError, AttributeError, ValueError, RecursionError) as error:
            raise LoadError(f"{self.config} is damaged: {where} cannot be read.") from error

    def _unpack(self, value: Any, where: str) -> Any:
        if isinstance(value, list):
            return [self._unpack(v, f"{where}[{i}]") for i, v in enumerate(value)]
        if not isinstance(value, dict):
            return value
        if "$" not in value:
            return {n: self._unpack(v, f"{where}.{n}") for n, v in value.items()}
        kind = value["$"]
        if kind in ("array", "tensor"):
            tensor = self.take(value["name"], tuple(value["shape"]), value["dtype"])
            return tensor.numpy() if kind == "array" else tensor
        readers = {
            "tuple": lambda: tuple(self._unpack(value["items"], where)),
            "dict": lambda: {k: v for k, v in self._unpack(value["items"], where)},
            "float": lambda: float(value["value"]),
            "path": lambda: Path(value["value"]),
            "strings": lambda: np.array(value["values"], object if value["object"] else str),
            "scaler": lambda: Scaler.from_state(value["kind"], self._unpack(value["state"], where)),
            "object": lambda: self._object(value, where),
            "module": lambda: self._own(value["class"]),
        }
        return readers[kind]()

    def _object(self, value: Mapping[str, Any], where: str) -> Any:
        cls = lookup(value["class"])
        if cls is None:
            what = f"{where} is a {value['class']!r}, which pellucid does not know"
            raise LoadError(f"{self.config}: {what}.")
        return self.construct(cls, value["params"], where)

    def _own(self, name: str) -> nn.Module:
        self.asked = True
        if self.placeholder:
            return type(str(name), (nn.Module,), {})()
        if not isinstance(self.autoencoder, nn.Module):
            folder = self.config.parent
            raise LoadError(
                f"{folder} was fitted with a network of your own, {name}: build one and pass it, "
                f"pellucid.load({str(folder)!r}, autoencoder={name}(...))."
            )
        return self.autoencoder

    def take(self, name: str, shape: tuple[int, ...], dtype: str) -> Tensor:
        """The tensor `name`, which has to have this shape and dtype."""
        found = self.tensors.get(name)
        if found is None:
            raise LoadError(f"{self.weights}: tensor {name!r} of shape {shape} is missing.")
        have = tuple(found.shape), str(found.dtype).removeprefix("torch.")
        if have != (shape, dtype):
            raise LoadError(
                f"{self.weights}: tensor {name!r} has shape {have[0]} ({have[1]}), but the model "
                f"needs shape {shape} ({dtype})."
            )
        self.unused.discard(name)
        return found

    def fitted(self, packed: dict[str, Any]) -> dict[str, Any]:
        """The fitted attributes, all but the network."""
        packed = dict(packed)
        odd = sorted(n for n in packed if not is_fitted_name(n))
        if odd or not is_state(packed.pop("module_", None)):
            what = f"{odd[0]!r} is no fitted attribute" if odd else "module_ is missing"
            raise LoadError(f"{self.config} is damaged: {what}.")
        return {name: self.unpack(value, name) for name, value in packed.items()}

    def module(self, est: Any) -> nn.Module:
        """The estimator's network with the saved weights."""
        try:
            with isolated(0):  # the weights it starts from are drawn and thrown away
                module: nn.Module = est._build_module()
        except Exception as error:
            raise LoadError(
                f"{self.config}: no network can be built from what it says ({error})."
            ) from error
        state = {
            n: self.take(f"module_.{n}", tuple(t.shape), str(t.dtype).removeprefix("torch."))
            for n, t in module.state_dict().items()
        }
        module.load_state_dict(state)
        return module.eval()

    def finish(self) -> None:
        """Nothing may be left over."""
        if self.unused:
            name = min(self.unused)
            raise LoadError(
                f"{self.weights}: tensor {name!r} of shape {tuple(self.tensors[name].shape)} is "
                f"unexpected, {self.config.name} has no place for it."
            )
        if self.autoencoder is not None and not self.asked:
            raise LoadError(
                f"{self.config.parent} holds its whole network: load it without autoencoder=."
            )


# Writing -------------------------------------------------------------------------------------


def fitted_names(est: Any) -> list[str]:
    """The fitted attributes, as scikit-learn recognises them."""
    return [name for name in vars(est) if is_fitted_name(name)]


def is_fitted_name(name: str) -> bool:
    """One underscore at the end and none at the beginning."""
    return name.endswith("_") and not name.startswith("_") and not name.endswith("__")


def class_name(value: Any, where: str) -> str:
    """The name under which `load` finds the class of `value` again."""
    name = type(value).__name__
    if lookup(name) is not type(value):
        raise TypeError(
            f"{where} is a {name}, which pellucid.load would not know. A class of your own is made "
            f"known by pellucid.persistence.register({name})."
        )
    return name


def is_state(value: Any) -> bool:
    """Whether a packed value stands for the estimator's own network."""
    return isinstance(value, dict) and value.get("$") == "state"


class Packer:
    """Python values as JSON, their arrays by name on the side."""

    def __init__(self) -> None:
        self.tensors: dict[str, Tensor] = {}

    def params(self, obj: BaseEstimator, where: str) -> dict[str, Any]:
        """The constructor's parameters."""
        packed = obj.get_params(deep=False)
        return {n: self.pack(v, f"{where}.{n}") for n, v in packed.items()}

    def pack(self, value: Any, where: str) -> Any:
        """`value` as JSON, or a TypeError that names `where` it is."""
        if isinstance(value, np.generic):
            value = value.item()
        if value is None or type(value) in (bool, int, str):
            return value
        if type(value) is float:
            return value if math.isfinite(value) else {"$": "float", "value": repr(value)}
        if isinstance(value, list | tuple | dict):
            return self._container(value, where)
        if isinstance(value, np.ndarray | Tensor):
            return self._array(value, where)
        if isinstance(value, nn.Module):
            return self._module(value, where)
        if isinstance(value, Scaler):
            state = {n: self.pack(v, f"{where}.{n}") for n, v in value.state().items()}
            return {"$": "scaler", "kind": value.kind, "state": state}
        if isinstance(value, BaseEstimator):
            name = class_name(value, where)
            return {"$": "object", "class": name, "params": self.params(value, where)}
        if isinstance(value, PurePath):
            return {"$": "path", "value": str(value)}
        if isinstance(value, np.random.RandomState | np.random.Generator):
            return None
        raise TypeError(f"{where} is a {type(value).__name__} and cannot be saved: {value!r:.80}")

    def _container(self, value: Any, where: str) -> Any:
        if type(value) is list:
            return [self.pack(v, f"{where}[{i}]") for i, v in enumerate(value)]
        if type(value) is tuple:
            return {"$": "tuple", "items": self.pack(list(value), where)}
        if type(value) is dict and all(type(k) is str and k != "$" for k in value):
            return {n: self.pack(v, f"{where}.{n}") for n, v in value.items()}
        if type(value) is dict:
            return {"$": "dict", "items": [self.pack([k, v], where) for k, v in value.items()]}
        raise TypeError(f"{where} is a {type(value).__name__} and cannot be saved.")

    def _array(self, value: Array | Tensor, where: str) -> dict[str, Any]:
        if isinstance(value, Tensor):
            return self._keep(value, where, "tensor")
        if value.dtype.kind in "UO" and all(isinstance(v, str) for v in value.flat):
            return {"$": "strings", "values": value.tolist(), "object": value.dtype.kind == "O"}
        if isinstance(value, np.ma.MaskedArray):
            raise TypeError(f"{where} is a masked array and cannot be saved: fill it first.")
        try:
            own = np.array(value, dtype=value.dtype.newbyteorder("="), order="C", subok=False)
            return self._keep(torch.from_numpy(own), where, "array")
        except TypeError as error:
            raise TypeError(f"{where} is an array of {value.dtype} and cannot be saved.") from error

    def _keep(self, value: Tensor, name: str, kind: str) -> dict[str, Any]:
        if value.layout != torch.strided or value.is_quantized or value.dtype == torch.complex128:
            raise TypeError(f"{name} is a {value.dtype} {value.layout} tensor and cannot be saved.")
        # A copy each: safetensors refuses tensors that share memory, as tied weights do.
        self.tensors[name] = value.detach().cpu().contiguous().clone()
        dtype = str(value.dtype).removeprefix("torch.")
        return {"$": kind, "name": name, "shape": list(value.shape), "dtype": dtype}

    def _module(self, value: nn.Module, where: str) -> dict[str, Any]:
        if where in ("params.autoencoder", "autoencoder_"):
            return {"$": "module", "class": type(value).__name__}
        if where != "module_":
            raise TypeError(f"{where} is a network and cannot be saved: only module_ is.")
        for name, tensor in value.state_dict().items():
            if not isinstance(tensor, Tensor):
                raise TypeError(f"{where}.{name} is not a tensor and cannot be saved.")
            self._keep(tensor, f"{where}.{name}", "tensor")
        return {"$": "state", "class": type(value).__name__}


def laid_out(value: Any, depth: int = 0) -> str:
    """JSON with a line per parameter, per fitted attribute and per epoch of a history."""
    records = isinstance(value, list) and any(isinstance(v, dict) for v in value)
    if not value or not (records or (isinstance(value, dict) and depth < 2)):
        return json.dumps(value, allow_nan=False)
    if isinstance(value, dict):
        parts = [f"{json.dumps(n)}: {laid_out(v, depth + 1)}" for n, v in value.items()]
    else:
        parts = [laid_out(v, depth + 1) for v in value]
    ends, space = "{}" if isinstance(value, dict) else "[]", "\n" + "  " * depth
    return f"{ends[0]}{space}  " + f",{space}  ".join(parts) + f"{space}{ends[1]}"


# Folders -------------------------------------------------------------------------------------


def write(file: Path, content: bytes) -> None:
    """A file that has reached the disk."""
    with file.open("wb") as handle:
        handle.write(content)
        handle.flush()
        os.fsync(handle.fileno())


def writable(path: str | os.PathLike[str]) -> Path:
    """`path` if a model can be saved there; worth asking before a long fit."""
    target = Path(path).resolve()
    if target.is_dir():
        others = sorted(p.name for p in target.iterdir() if p.name not in (CONFIG, WEIGHTS))
        if others or (any(target.iterdir()) and not is_model(target)):
            held = f" (it holds {', '.join(others[:3])})" if others else ""
            raise ValueError(
                f"{target} is not a folder of a saved model alone{held} and is left as it is: "
                f"save into a folder of its own."
            )
    elif target.exists():
        raise ValueError(f"{target} is a file: name a folder to save into.")
    parent = next(p for p in target.parents if p.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise ValueError(f"{target} cannot be written, {parent} does not allow it: save elsewhere.")
    return target


def is_model(folder: Path) -> bool:
    """Whether ``config.json`` there says that it is one of ours, of any schema."""
    try:
        config = json.loads((folder / CONFIG).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(config, dict) and config.get("format") == FORMAT


@contextmanager
def replacing(target: Path) -> Iterator[Path]:
    """A new folder to fill, which then takes the place of `target` in one step."""
    fresh = target.with_name(f".{target.name}.{secrets.token_hex(4)}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        fresh.mkdir()
        yield fresh
        move_into_place(fresh, target)
    except OSError as error:
        raise ValueError(f"{target} cannot be written ({error}): save elsewhere.") from error
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def move_into_place(fresh: Path, target: Path) -> None:
    """`fresh` becomes `target`; what was there is removed afterwards."""
    if not target.exists():
        fresh.rename(target)
    elif not exchange(fresh, target):
        # Two steps where the system has no exchange; in between `existing` points to the old one.
        old = retired(target)
        shutil.rmtree(old, ignore_errors=True)
        target.rename(old)
        try:
            fresh.rename(target)
        except OSError:
            old.rename(target)
            raise
        shutil.rmtree(old, ignore_errors=True)


def retired(target: Path) -> Path:
    """Where the model before stands while another one takes its place."""
    return target.with_name(f".{target.name}.old")


def exchange(a: Path, b: Path) -> bool:
    """Swap two folders in one step, where the system and the file system can (Linux, macOS)."""
    one, other = os.fsencode(a), os.fsencode(b)
    calls: dict[str, tuple[str, tuple[int | bytes, ...]]] = {
        "linux": ("renameat2", (-100, one, -100, other, 2)),  # AT_FDCWD, RENAME_EXCHANGE
        "darwin": ("renamex_np", (one, other, 2)),  # RENAME_SWAP
    }
    if sys.platform not in calls:
        return False
    name, arguments = calls[sys.platform]
    function = getattr(ctypes.CDLL(None), name, None)
    return function is not None and function(*arguments) == 0
