"""The entry point of a worker process: ``python -m txqueue.worker``, started by a master."""

from txqueue.system.processes import die_with_parent
from txqueue.worker.entry import begin_process, run_worker


def main() -> None:
    """Run a worker until its master closes the pipe."""
    # A node that detects the master's end returns its jobs to the queue at once.
    die_with_parent()
    begin_process()
    run_worker()


if __name__ == "__main__":
    main()
