"""Reads ranked results (runs) and gold from files and Python objects, row by row or as NumPy columns."""
