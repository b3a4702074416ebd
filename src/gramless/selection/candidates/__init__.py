"""Kinds of models that selection tries, one to a file."""
