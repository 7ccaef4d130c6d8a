"""Render tables and text for the terminal, as plain text, Markdown, CSV and TeX."""
