"""What is derived from the rows of a report: the verdict on each case, the results of each search, columns for a DataFrame."""
