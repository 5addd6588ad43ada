"""What a training needs, how long it takes on each offer, and which offer to take."""
