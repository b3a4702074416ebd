"""What a fitted model says: explanations, diagnostics, errors of its kernel, comparisons, pictures.

Modules are imported one by one, so that looking at a model loads no more than it needs.
"""
