"""Named streams of randomness, so that adding a draw in one place moves nothing in another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from zlib import crc32

import numpy as np
import torch
from sklearn.utils import check_random_state


class Seeds:
    """Integers that are a pure function of (`random_state`, name, indices)."""

    def __init__(self, random_state: int | np.random.RandomState | None) -> None:
        self.root = int(check_random_state(random_state).randint(2**31 - 1))

    def __call__(self, name: str, *indices: int) -> int:
        """The seed of stream `name`, for example ``seeds("shuffle", restart)``."""
        entropy = (self.root, crc32(name.encode()), *indices)
        return int(np.random.SeedSequence(entropy).generate_state(1, np.uint64)[0] >> 1)


@contextmanager
def isolated(seed: int) -> Iterator[None]:
    """Run with torch's generator at `seed` and leave the caller's generator as it was."""
    devices = range(torch.cuda.device_count()) if torch.cuda.is_available() else ()
    with torch.random.fork_rng(devices=list(devices)):
        if any(kind.is_available() for kind in (torch.cuda, torch.xpu, torch.backends.mps)):
            torch.manual_seed(seed)
        else:  # that would keep, for an accelerator to come, a note of who called
            torch.default_generator.manual_seed(seed)
        yield
