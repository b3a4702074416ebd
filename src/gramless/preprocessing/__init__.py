"""Preprocessing: checks of rows, encoding of tables, imputation and scaling."""
