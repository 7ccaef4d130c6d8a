"""Results derived from the rows of a report: verdicts on cases, results of searches, columns for a DataFrame."""
