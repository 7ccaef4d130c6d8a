"""What a stored evaluation says about its causes, by arithmetic on its labels: where documents were lost, what would help."""
