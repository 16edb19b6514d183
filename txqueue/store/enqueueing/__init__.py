"""What applications and handlers write: jobs, batches, worksets, schedules, in a transaction."""
