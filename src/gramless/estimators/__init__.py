"""Thin scikit-learn estimators over feature maps, search and solvers."""
