"""Scores and labels in the shapes of the tools that hold the traces which were judged."""
