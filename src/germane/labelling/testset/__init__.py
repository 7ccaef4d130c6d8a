"""Checks of a test set itself: repeated and copied questions, one-sided and missing gold, and its size."""
