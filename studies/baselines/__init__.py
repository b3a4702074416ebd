"""Feature maps and solvers that only the papers' comparisons use."""
