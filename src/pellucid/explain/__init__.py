"""Why is x in cluster j: exemplars, profiles, contributions, rules, ambiguity and stability."""

from pellucid.explain.build import explain
from pellucid.explain.explanation import (
    Ambiguity,
    Cluster,
    Explanation,
    Rules,
    Sample,
    Shift,
)

__all__ = ["Ambiguity", "Cluster", "Explanation", "Rules", "Sample", "Shift", "explain"]
