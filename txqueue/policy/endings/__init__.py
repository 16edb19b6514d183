"""How an attempt ends, and how its error is written down."""
