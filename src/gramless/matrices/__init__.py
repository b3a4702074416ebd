"""The N x D feature matrix in its forms, one interface."""
