"""Pure decisions: dispatch, balancing, outcomes, blockers, status. Internal."""
