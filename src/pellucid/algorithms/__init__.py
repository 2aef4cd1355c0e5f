"""One page per paper."""

from pellucid.algorithms.tell import TELL, Centers

__all__ = ["TELL", "Centers"]
