"""Representations: specs that build networks, and the networks."""

from pellucid.autoencoders.specs import MLP, NAMED, Conv, Identity, Spec, resolve

__all__ = ["MLP", "NAMED", "Conv", "Identity", "Spec", "resolve"]
