"""An evaluation's rows, what they add up to, and how it is shown."""
