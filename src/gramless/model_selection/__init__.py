"""Choosing what a user should not have to: scaling, bandwidth and alpha."""
