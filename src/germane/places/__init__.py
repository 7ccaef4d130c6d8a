"""Places: one row per place of every ranking, with a column of labels per source."""
