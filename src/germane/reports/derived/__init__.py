"""Results computed from a report's tables: the verdict on each case, and the records that explain scores."""
