"""The worker processes of a node, the jobs in them, and what they report."""
