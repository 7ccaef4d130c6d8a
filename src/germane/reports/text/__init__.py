"""A report as text: for the terminal and notebooks, and as Markdown."""
