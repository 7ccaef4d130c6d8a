"""One file a judge."""
