"""People's labels: what to label and in which order, labelling sessions, files of labels, and the audit of a judge."""
