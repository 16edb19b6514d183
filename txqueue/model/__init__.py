"""Values: work items, jobs, payloads, retries, schedules. Internal."""
