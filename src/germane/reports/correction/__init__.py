"""The draws of labels, and the chances that they give."""
