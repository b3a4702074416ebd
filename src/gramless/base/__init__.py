"""Foundations: errors, random streams, the thread pool and the memory budget."""
