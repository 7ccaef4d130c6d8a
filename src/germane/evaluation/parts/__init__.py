"""One evaluation in several parts: what each has, who runs them, and how they become one report."""
