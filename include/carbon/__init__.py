"""Energy and carbon: formulas, the meter an agent carries, and the grid intensity of each region."""
