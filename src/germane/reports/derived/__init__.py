"""Results derived from a report's rows: verdicts on cases, results of searches, columns for a DataFrame."""
