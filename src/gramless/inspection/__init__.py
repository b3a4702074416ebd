"""What a fitted model says: explanations, errors of its kernel, comparisons and pictures."""
