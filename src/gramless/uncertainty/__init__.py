"""How large the errors of predictions are: intervals, sets, probabilities, posterior draws."""
