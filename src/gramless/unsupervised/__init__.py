"""Estimators and tests for rows without targets."""
