"""A worker process: performs the jobs that its master hands it."""
