"""Why is x in cluster j: exemplars, profiles, contributions, rules, ambiguity and stability."""

from pellucid.explain.build import explain
from pellucid.explain.contributions import (
    Attribution,
    Margin,
    gradient_times_input,
    integrated_gradients,
    latent_terms,
)
from pellucid.explain.explanation import (
    Ambiguity,
    Cluster,
    Explanation,
    Rules,
    Sample,
    Shift,
)
from pellucid.explain.rules import Questions

__all__ = [
    "Ambiguity",
    "Attribution",
    "Cluster",
    "Explanation",
    "Margin",
    "Questions",
    "Rules",
    "Sample",
    "Shift",
    "explain",
    "gradient_times_input",
    "integrated_gradients",
    "latent_terms",
]
