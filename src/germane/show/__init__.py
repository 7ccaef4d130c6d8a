"""Tables and other text in the formats of a terminal, plain text, Markdown, HTML, CSV and TeX."""
