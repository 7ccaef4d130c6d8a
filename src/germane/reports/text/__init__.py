"""Write a report as text: for the terminal, for notebooks, and as Markdown."""
