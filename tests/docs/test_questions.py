"""What users of work queues ask is answered, where a reader looks for it.

The questions are those of other queues' issue trackers; each names the thread.
"""

import re
from collections.abc import Callable
from typing import Final

import pytest
from attrs import frozen

from tests.docs.markdown import ROOT, section


@frozen
class Question:
    """A question, and the place that answers it.

    Attributes:
        asked: What a reader types into the search.
        thread: Where a user has asked it, below https://github.com.
        page: The page, below `docs`.
        heading: Its heading.
        answer: A pattern of what it must say.
    """

    asked: str
    thread: str
    page: str
    heading: str
    answer: str

    @property
    def place(self) -> str:
        """The page and the anchor of the heading, as the search finds them."""
        anchor = re.sub(r"[^a-z0-9]+", "-", self.heading.lower()).strip("-")
        return f"{self.page}#{anchor}"


QUESTIONS: Final = (
    Question(
        "how do I delete old jobs",
        "procrastinate-org/procrastinate/issues/344",
        *("howto/prepare-the-database", "Keep history for longer or shorter", "history_kept"),
    ),
    Question(
        "delay a job by an hour",
        "rq/rq/issues/1073",
        *("howto/write-handlers", "Priority and time", "`not_before`"),
    ),
    Question(
        "worker crashed: what happens to its job",
        "graphile/worker/issues/204",
        *("explanation/job-life", "When a worker process dies", "start again within"),
    ),
    Question(
        "send an email after the transaction commits",
        "celery/celery/pull/8491",
        *("howto/in-an-application", "Enqueue in a request", r"transaction\(\)"),
    ),
    Question(
        "run one job per user at a time",
        "oban-bg/oban/issues/114",
        *("howto/write-handlers", "Groups", "at most one|one at a time|one runs at a time"),
    ),
    Question(
        "retry with exponential backoff",
        "rq/rq/issues/201",
        *("howto/write-handlers", "Retry", r"Retry\("),
    ),
    Question(
        "why is my job not running",
        "graphile/worker/issues/254",
        *("howto/administer", "Find out why a job does not run", "txqueue explain"),
    ),
    Question(
        "prevent duplicate jobs",
        "oban-bg/oban/issues/388",
        *("howto/relate-jobs", "One job for a key", "unique"),
    ),
    Question(
        "run a task every night",
        "RealOrangeOne/django-tasks/issues/259",
        *("howto/recurring-work", "Declare it on the class", r"Cron\("),
    ),
    Question(
        "rate limit calls to an API",
        "celery/celery/issues/5732",
        *("howto/administer", "Limit a queue, a group or a tenant", "--rate"),
    ),
    Question(
        "cancel a running job",
        "procrastinate-org/procrastinate/issues/511",
        *("howto/administer", "Cancel jobs", "txqueue cancel"),
    ),
    Question(
        "set a timeout for a job",
        "oban-bg/oban/issues/154",
        *("howto/write-handlers", "Timeout", "`timeout`|timeout = "),
    ),
    Question(
        "run a job when several others have finished",
        "rq/rq/issues/326",
        *("howto/relate-jobs", "Batches", "callback"),
    ),
    Question(
        "get the return value of a job",
        "procrastinate-org/procrastinate/issues/370",
        *("howto/without-twisted", "Wait for results", r"wait\(job_id"),
    ),
    Question(
        "retry all failed jobs",
        "rq/django-rq/pull/179",
        *("howto/administer", "Retry jobs", "txqueue retry"),
    ),
    Question(
        "SIGTERM during a deploy",
        "rq/rq/issues/1516",
        *("howto/run-a-node", "Stop a node", "SIGTERM"),
    ),
    Question(
        "PgBouncer transaction pooling",
        "bensheldon/good_job/issues/1573",
        *("howto/prepare-the-database", "Connection poolers", "PgBouncer in transaction mode"),
    ),
    Question(
        "Prometheus metrics for queue depth",
        "janbjorge/pgqueuer/pull/448",
        *("howto/monitor", "Metrics of the installation", "txqueue_queue_jobs"),
    ),
    Question(
        "test tasks with Django",
        "procrastinate-org/procrastinate/issues/1099",
        *("howto/test-handlers", "Django", "TestCase"),
    ),
    Question(
        "report progress of a job",
        "rq/rq/pull/1536",
        *("howto/large-sets", "Report the progress of a long job", r"job\.progress\("),
    ),
    Question(
        "job stuck",
        "rails/solid_queue/issues/140",
        *("howto/troubleshoot", "My job does not start", "txqueue explain"),
    ),
)


@pytest.mark.parametrize("question", QUESTIONS, ids=lambda question: question.asked)
def test_the_page_answers(question: Question) -> None:
    """Under its heading."""
    text = section(ROOT / "docs" / f"{question.page}.md", question.heading)
    assert re.search(question.answer, text, re.IGNORECASE)


@pytest.mark.slow("docs")
def test_the_search_finds_the_answer(search: Callable[..., dict[str, list[str]]]) -> None:
    """Among its first three results; the index links each page, too (see `test_links.py`)."""
    found = search(question.asked for question in QUESTIONS)
    missed = [each for each in QUESTIONS if each.place not in found[each.asked][:3]]
    assert not missed, [(each.asked, found[each.asked][:3]) for each in missed]
