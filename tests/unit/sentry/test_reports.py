"""What Sentry gets of runs and calls: asked of its own SDK, whose transport keeps what it sends."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.unit.worker.performing import Handled, Harness
from tests.unit.worker.running.test_traced_runs import exporter  # noqa: F401 - a fixture
from txqueue import Cron, Retry, RunningJob
from txqueue.model import directives
from txqueue.sentry import install
from txqueue.sentry.error_kinds import fingerprint
from txqueue.tracing import choice
from txqueue.tracing.choice import sending

sentry_sdk = pytest.importorskip("sentry_sdk")

CANARY = "s3cr3t-4111111111111111"


class Kept:
    """Keeps what is sent, as pairs of its kind and its document."""

    sent: list[tuple[str, Any]]

    def capture_envelope(self, envelope: Any) -> None:
        """Keep it."""
        self.sent += [(item.type, item.payload.json) for item in envelope.items]

    def of(self, kind: str) -> list[Any]:
        """All that was sent of a kind."""
        return [document for sent, document in self.sent if sent == kind]


@pytest.fixture
def sentry(monkeypatch: pytest.MonkeyPatch) -> Iterator[Kept]:
    """An application that reports to Sentry, without what the SDK changes in the whole process."""
    kept = type("KeptTransport", (Kept, sentry_sdk.Transport), {"sent": []})()
    monkeypatch.setattr(choice, "_sources", [])
    monkeypatch.setattr(directives, "_hooks", [])
    sentry_sdk.init(
        dsn="http://key@localhost/1",
        transport=kept,
        traces_sample_rate=1.0,
        default_integrations=False,
        auto_enabling_integrations=False,
    )
    install()
    install()
    yield kept
    sentry_sdk.get_client().close()
    sentry_sdk.get_global_scope().set_client(None)


def test_what_django_logs_of_a_failure_is_no_second_issue(sentry: Kept) -> None:
    """Of its tasks; other loggers are reported as before."""
    handler = sentry_sdk.integrations.logging.EventHandler()
    for name in ("django.tasks", "django_tasks", "shop"):
        handler.handle(logging.makeLogRecord({"name": name, "levelno": logging.ERROR}))
    [event] = sentry.of("event")
    assert event["logger"] == "shop"


async def fails(_: Any, job: RunningJob) -> None:
    """Fail, with data in a variable."""
    number = CANARY
    raise LookupError(f"no order {job.id}") if number else AssertionError


def run(perform: Any, *, terms: Any = None, attempt: int = 1, attempts: int = 1) -> Harness:
    """Run one job to its end."""
    bench = Harness()
    with bench.handler(perform, retry=Retry(attempts=attempts)):
        bench.hand(5, Handled.entry(1, terms=terms, attempt=attempt))
        bench.turn()
    return bench


def test_a_job_that_has_failed_for_good_is_one_issue(sentry: Kept) -> None:
    """Grouped by kind; attempts before it are its breadcrumbs; no variable is sent."""
    run(fails, attempts=2)
    assert sentry.of("event") == []
    [settled] = run(fails, attempt=2, attempts=2).settled
    [event] = sentry.of("event")
    kind = fingerprint(settled["error"])
    assert event["fingerprint"] == ["txqueue", kind]
    assert event["tags"] == {
        "txqueue.job_id": "1",
        "txqueue.work_type": Handled.work_type,
        "txqueue.attempt": "2",
        "txqueue.fingerprint": kind,
    }
    [error] = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("LookupError", "no order 1")
    [crumb] = event["breadcrumbs"]["values"]
    assert crumb["message"] == "attempt 1 of job 1 failed: LookupError: no order 1"
    assert CANARY not in str(sentry.sent)


def test_the_issue_is_of_the_trace_of_its_run(sentry: Kept) -> None:
    """With what the handler has noted, and nothing of another job."""

    async def notes(work: Any, job: RunningJob) -> None:
        sentry_sdk.add_breadcrumb(message=f"noted by {job.id}")
        await fails(work, job)

    run(fails)
    run(notes)
    event, transaction = sentry.of("event")[-1], sentry.of("transaction")[-1]
    assert event["contexts"]["trace"]["trace_id"] == transaction["contexts"]["trace"]["trace_id"]
    assert [crumb["message"] for crumb in event["breadcrumbs"]["values"]] == ["noted by 1"]


def test_what_a_handler_captures_names_its_job(sentry: Kept) -> None:
    """And nothing that is captured after that."""

    async def captures(_: Any, job: RunningJob) -> None:
        sentry_sdk.capture_message(f"from {job.id}")

    run(captures, attempt=2)
    sentry_sdk.capture_message("later")
    inside, later = sentry.of("event")
    of_job = {"job_id": "1", "work_type": Handled.work_type, "attempt": "2"}
    assert inside["tags"] == {f"txqueue.{name}": value for name, value in of_job.items()}
    assert not later.get("tags")


def test_of_redacted_work_only_the_class_is_sent(sentry: Kept) -> None:
    """An error may quote the payload, and so may what the handler has noted."""

    async def tells(_: Any, job: RunningJob) -> None:
        sentry_sdk.add_breadcrumb(message=CANARY)
        try:
            raise KeyError(CANARY)
        except KeyError as error:
            raise LookupError(CANARY) from error

    run(tells, terms={"redacted": True}, attempts=2)
    run(tells, terms={"redacted": True}, attempt=2, attempts=2)
    [event] = sentry.of("event")
    types = [error["type"] for error in event["exception"]["values"]]
    assert types == ["KeyError", "LookupError"]
    assert CANARY not in str(sentry.sent)


def test_a_run_continues_the_trace_of_the_call(sentry: Kept) -> None:
    """By Sentry's names for queues; a retry has a trace of its own."""
    with sentry_sdk.start_transaction(op="http.server", name="request") as request:
        with sending(Handled(), {"queue": "mail"}) as call:
            call.enqueued(1)
        options = dict(call.options)
    run(fails, terms=options, attempts=2)
    run(fails, terms=options, attempt=2)
    sent, first, second = sentry.of("transaction")
    [publish], [process] = sent["spans"], first["spans"]
    assert (publish["op"], process["op"]) == ("queue.publish", "queue.process")
    assert publish["data"]["messaging.destination.name"] == "mail"
    assert {publish["data"]["messaging.message.id"], process["data"]["messaging.message.id"]} == {
        "1"
    }
    assert process["data"]["messaging.message.receive.latency"] >= 0
    trace = first["contexts"]["trace"]
    assert (trace["trace_id"], trace["parent_span_id"]) == (request.trace_id, publish["span_id"])
    assert (trace["op"], trace["status"]) == ("queue.task.txqueue", "internal_error")
    assert second["contexts"]["trace"]["trace_id"] != request.trace_id
    assert second["spans"][0]["data"]["messaging.message.retry.count"] == 1


def test_a_schedule_is_a_monitor(sentry: Kept, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its check-in is the same in each attempt, and ends with the job."""
    monkeypatch.setattr(Handled, "schedule", Cron("0 3 * * *", tz="Europe/Berlin"))
    terms = {"schedule": Handled.work_type, "due": "2026-11-30T03:00:00+00:00"}
    for attempt in (1, 2):
        run(fails, terms=terms, attempt=attempt, attempts=2)
    check_ins = sentry.of("check_in")
    assert [each["status"] for each in check_ins] == ["in_progress", "in_progress", "error"]
    assert {each["monitor_slug"] for each in check_ins} == {"performing-handled"}
    assert len({each["check_in_id"] for each in check_ins}) == 1
    assert check_ins[0]["monitor_config"] == {
        "schedule": {"type": "crontab", "value": "0 3 * * *"},
        "timezone": "Europe/Berlin",
    }


def test_beside_opentelemetry_both_have_the_run(
    sentry: Kept,
    exporter: InMemorySpanExporter,  # noqa: F811 - the fixture
) -> None:
    """The call is OpenTelemetry's, whose trace Sentry continues."""
    with sending(Handled(), {}) as call:
        call.enqueued(1)
    run(fails, terms=dict(call.options))
    send, process = exporter.get_finished_spans()
    [transaction] = sentry.of("transaction")
    assert send.context is not None
    assert process.parent is not None
    assert process.parent.span_id == send.context.span_id
    assert transaction["contexts"]["trace"]["trace_id"] == f"{send.context.trace_id:032x}"
    assert transaction["contexts"]["trace"]["parent_span_id"] == f"{send.context.span_id:016x}"
