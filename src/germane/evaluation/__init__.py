"""One evaluation from its options to its report: plan, units of work, merge; sessions that can be resumed."""
