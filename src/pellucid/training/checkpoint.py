"""State on disk: one safetensors file, tensors and a JSON header, written atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor


def write(path: Path, tensors: dict[str, Tensor], meta: dict[str, Any]) -> None:
    """Replace `path` in one move, so that a kill leaves the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = path.with_name(path.name + ".part")
    whole = {n: t.detach().cpu().contiguous().clone() for n, t in tensors.items()}
    save_file(whole, fresh, metadata={"json": json.dumps(meta)})
    with open(fresh, "rb") as file:
        os.fsync(file.fileno())
    os.replace(fresh, path)


def read(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Tensors and header of `path`; nothing in the file is run."""
    try:
        with safe_open(path, "pt") as file:
            meta = json.loads((file.metadata() or {})["json"])
            return {n: file.get_tensor(n) for n in file.keys()}, meta  # noqa: SIM118
    except (SafetensorError, KeyError, json.JSONDecodeError) as error:
        raise ValueError(f"{path} is not a whole checkpoint ({error}). Remove it.") from error


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
