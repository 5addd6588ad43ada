"""Offers: a bundled, dated list of AWS types, and this machine."""
