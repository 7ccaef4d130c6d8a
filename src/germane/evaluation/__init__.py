"""One evaluation, from options to report: its plan, its run, and how an interrupted run is resumed."""
