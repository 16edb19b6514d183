"""Reports failures, traces and schedules to Sentry, by its SDK, which the application sets up."""

from txqueue.errors import ConfigurationError
from txqueue.model.directives import on_failure
from txqueue.tracing.choice import trace_with

__all__ = ["install"]


def install() -> None:
    """Report to Sentry what happens to jobs.

    Call it after ``sentry_sdk.init()``: in the processes that enqueue, and in a module that
    ``--app`` imports. A job that fails for good becomes an issue, whose breadcrumbs are its earlier
    attempts in that process; a schedule becomes a monitor. Calls that enqueue and runs of jobs have
    spans if ``sentry_sdk.init()`` asks for traces. These reports have no payloads, results or
    variables, and of redacted work no text of an error.

    Raises:
        ConfigurationError: When Sentry's SDK is not installed.
    """
    try:
        from sentry_sdk.integrations.logging import ignore_logger

        from txqueue.sentry.reports import REPORTS
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "sentry_sdk":
            raise
        raise ConfigurationError(
            "reports to Sentry need its SDK", "install it: pip install 'txqueue[sentry]'"
        ) from None
    # They log failures of tasks, which are issues already.
    for name in ("django.tasks", "django_tasks"):
        ignore_logger(name)
    trace_with(REPORTS)
    on_failure(REPORTS.note)
