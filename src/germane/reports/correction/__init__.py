"""Random draws of items for people to label, and the probabilities by which they correct judged means."""
