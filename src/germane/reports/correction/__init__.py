"""Draws of labels and their probabilities."""
