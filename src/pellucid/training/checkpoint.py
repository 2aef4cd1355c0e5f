"""State on disk: one safetensors file, tensors and a JSON header, written atomically."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

# A tensor of its own: safetensors refuses headers of more than 100 MB, which snapshots can reach.
META = "meta.json"
PART = ".part"


def write(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Replace `path` in one move, so that a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + PART)
    whole = {n: t.detach().cpu().contiguous().clone() for n, t in tensors.items()}
    text = bytearray(json.dumps(meta), "utf-8")
    save_file(whole | {META: torch.frombuffer(text, dtype=torch.uint8)}, fresh)
    with open(fresh, "r+b") as file:
        os.fsync(file.fileno())
    os.replace(fresh, path)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and header of `path`; nothing in the file is run."""
    try:
        with safe_open(path, "pt") as file:
            # Copies: the file is mapped, and a mapped file can't be replaced everywhere.
            tensors = {n: file.get_tensor(n).clone() for n in file.keys()}
        return tensors, json.loads(tensors.pop(META).numpy().tobytes())
    except (SafetensorError, KeyError, ValueError) as error:
        raise ValueError(f"{path} is not a whole checkpoint ({error}). Remove it.") from error


def check_folder(folder: str | os.PathLike[str]) -> None:
    """A ValueError unless files can be written in `folder`, which is made if missing."""
    try:
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"checkpoint_dir={os.fspath(folder)!r} can't be written ({error.strerror}). Use a "
            f"folder of your own, or checkpoint_dir=None for none."
        ) from error


def optimizer_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The optimizer's state, flat: ``optimizer.<parameter>.<name>``."""
    state = optimizer.state_dict()["state"]
    return {f"optimizer.{i}.{n}": t for i, s in state.items() for n, t in s.items()}


def restore_optimizer(optimizer: torch.optim.Optimizer, tensors: dict[str, Tensor]) -> None:
    """The inverse of `optimizer_tensors`; learning rates come from the settings."""
    state: dict[int, dict[str, Tensor]] = {}
    for name, t in tensors.items():
        if name.startswith("optimizer."):
            _, i, field = name.split(".", 2)
            state.setdefault(int(i), {})[field] = t
    groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": groups})
