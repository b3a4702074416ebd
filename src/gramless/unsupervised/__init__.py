"""Models of rows without targets."""
