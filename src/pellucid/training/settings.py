"""How to train: one object that travels instead of a dozen arguments."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral
from os import PathLike

import torch
from sklearn.base import BaseEstimator

from pellucid.training import checkpoint, distributed
from pellucid.training.optim import OPTIMIZERS


class Training(BaseEstimator):
    """Settings of the training engine, the same for every algorithm.

    Parameters
    ----------
    optimizer : {"adadelta", "adam", "adagrad", "rmsprop", "sgd"}, default="adadelta"
    lr : float, optional
        Learning rate; None is PyTorch's default for the optimizer.
    device : str, default="auto"
        "auto" takes CUDA when there is one, or any name that torch knows.
    precision : {"auto", "bfloat16", "float32"}, default="auto"
        Networks in bfloat16 autocast where the hardware is fast at it. Losses, distances and
        centres are float32 in any case.
    compile : bool, default=False
        ``torch.compile`` the module (one by one restarts only).
    restarts : {"auto", "stacked", "single"}, default="auto"
        Train the restarts side by side in one stack, or one after another. Stacks are exact for
        networks without batch normalisation and dropout, and pay for small networks.
    clip : float, optional
        Largest gradient norm of a restart's network.
    checkpoint_dir : path, optional
        Where an interrupted fit keeps its state; the same fit started again goes on from there.
    checkpoint_every : int, default=1
        Epochs between two checkpoints.
    """

    def __init__(
        self,
        optimizer: str = "adadelta",
        *,
        lr: float | None = None,
        device: str = "auto",
        precision: str = "auto",
        compile: bool = False,
        restarts: str = "auto",
        clip: float | None = None,
        checkpoint_dir: str | PathLike[str] | None = None,
        checkpoint_every: int = 1,
    ) -> None:
        self.optimizer = optimizer
        self.lr = lr
        self.device = device
        self.precision = precision
        self.compile = compile
        self.restarts = restarts
        self.clip = clip
        self.checkpoint_dir = checkpoint_dir
        self.checkpoint_every = checkpoint_every

    def check(self) -> None:
        """Refuse what can't work, before any work is done."""
        one_of("optimizer", self.optimizer, sorted(OPTIMIZERS))
        one_of("precision", self.precision, ["auto", "bfloat16", "float32"])
        one_of("restarts", self.restarts, ["auto", "stacked", "single"])
        if self.lr is not None and not self.lr > 0:
            raise ValueError(f"Training(lr={self.lr!r}): the learning rate must be positive.")
        if self.clip is not None and not self.clip > 0:
            raise ValueError(f"Training(clip={self.clip!r}): use a positive norm, or None.")
        if not isinstance(self.checkpoint_every, Integral) or self.checkpoint_every < 1:
            raise ValueError(
                f"Training(checkpoint_every={self.checkpoint_every!r}): use a whole number of at "
                f"least 1."
            )
        if self.compile and self.restarts == "stacked":
            raise ValueError(
                'Training(compile=True, restarts="stacked"): a stack is not compiled. Use '
                'restarts="single" or "auto".'
            )
        self.torch_device()
        if self.checkpoint_dir is not None:
            checkpoint.check_folder(self.checkpoint_dir)

    def torch_device(self) -> torch.device:
        """The device meant, or an error that says what is missing."""
        if self.device == "auto":
            return distributed.accelerator()
        try:
            device = torch.device(self.device)
        except RuntimeError as error:
            raise ValueError(
                f"Training(device={self.device!r}): torch does not know it."
            ) from error
        if device.type == "cuda" and not torch.cuda.is_available():
            raise ValueError(
                f"Training(device={self.device!r}): no CUDA device is available to this PyTorch "
                f'({torch.__version__}). Use device="cpu" or "auto", or install a CUDA build.'
            )
        return device

    def autocast(self) -> torch.autocast:
        """The context that networks run in."""
        device = self.torch_device()
        half = self.precision == "bfloat16" or (self.precision == "auto" and fast_bfloat16(device))
        return torch.autocast(device.type, dtype=torch.bfloat16, enabled=half)


def one_of(name: str, value: object, allowed: Sequence[object]) -> None:
    """A ValueError that lists the choices, unless `value` is one of them."""
    if value not in allowed:
        raise ValueError(f"{name}={value!r}: use one of {allowed}.")


def fast_bfloat16(device: torch.device) -> bool:
    """Whether matrix products in bfloat16 have hardware of their own there."""
    if device.type == "cuda":
        return torch.cuda.get_device_capability(device) >= (8, 0)
    return device.type == "cpu" and torch.backends.mkldnn.is_available() and has_bfloat16_cpu()


def has_bfloat16_cpu() -> bool:
    """AVX512-BF16 or AMX; without them oneDNN emulates bfloat16, slower than float32."""
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(getattr(torch.cpu, name, bool)() for name in checks)
