"""Machines: feature maps, their prior, layers of weights, and their derivatives."""
