"""Tables and other text as a terminal, plain text, Markdown, HTML, CSV and TeX show it."""
