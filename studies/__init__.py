"""The papers' tables and figures, run again: what they measured, what we do, side by side."""
