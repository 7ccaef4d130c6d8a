"""Random draws of items for people to label, and their probabilities, by which judged means are corrected."""
