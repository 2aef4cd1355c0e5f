"""One colour and one shape per cluster, on pages and in plots."""

from __future__ import annotations

# Ten colours chosen by search: the smallest CIELAB distance of two is 31, or 21 as seen with
# protanopia and deuteranopia (Machado et al. 2009), and each stands out from white and from the
# dark page by 2.2 : 1 or more. More clusters repeat the colours with another shape, and every
# cluster carries its number.
PALETTE = (
    "#0d72b3",
    "#cea722",
    "#2ac18f",
    "#8a6643",
    "#99b55f",
    "#b05210",
    "#73b6bf",
    "#935c77",
    "#3f77ea",
    "#a7a3f0",
)
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross")


def colour(cluster: int) -> str:
    """The colour of a cluster."""
    return PALETTE[cluster % len(PALETTE)]


def shape(cluster: int) -> str:
    """The shape of its points on the map."""
    return SHAPES[cluster // len(PALETTE) % len(SHAPES)]
