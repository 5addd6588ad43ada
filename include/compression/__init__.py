"""Recipes applied to trained weights: prune, distill, export, quantize, with a cache of the expensive prefix."""
