"""Pure decisions: placement of work, endings of attempts, blockers, diagnosis, status. Internal."""
