"""Which work goes where, and when a node looks for more."""
