"""Feature maps: scikit-learn transformers that also hand out a feature matrix."""
