"""Pictures of a report, as SVG: the same in a file, in Markdown and on the page."""
