"""Ranked results and gold: read from files and from Python, row by row or in columns."""
