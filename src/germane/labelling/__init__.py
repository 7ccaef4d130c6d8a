"""Labels of people: what to label and in which order, a person's session, files of labels, and the audit of a judge."""
