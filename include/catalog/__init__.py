"""Offers: a bundled, dated list of AWS types, what a refresh found of them, and the machines of the user."""
