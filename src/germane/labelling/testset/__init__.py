"""Checks of a test set itself: repeated and copied questions, gold of one system, gold that is gone, and its size."""
