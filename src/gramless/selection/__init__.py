"""Selection of features, settings and penalty on validation rows."""
