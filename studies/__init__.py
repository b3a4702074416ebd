"""Reproduction of the papers' tables and figures, with comparisons of their numbers and ours."""
