"""A worker process: runs the jobs that its master sends. Internal."""
