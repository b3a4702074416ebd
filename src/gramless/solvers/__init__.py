"""Solvers: a problem goes in, weights and an honest account of the work come out."""
