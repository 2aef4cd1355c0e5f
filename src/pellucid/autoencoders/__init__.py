"""Representations: specs that build networks, and the networks."""

from pellucid.autoencoders.specs import MLP, NAMED, Conv, Identity, Spec, narrow_mlp, resolve

__all__ = ["MLP", "NAMED", "Conv", "Identity", "Spec", "narrow_mlp", "resolve"]
