"""The reader of the metrics of the installation."""

from typing import Any

from prometheus_client.core import Metric
from twisted.internet.task import Clock
from twisted.logger import capturedLogs, formatEvent

from txqueue.errors import DatabaseUnavailable, NotPermitted
from txqueue.metrics.families import process_families
from txqueue.metrics.service import InstallationReader

REFUSED = NotPermitted("permission denied for sequence job_id", "grant it")
SILENT = DatabaseUnavailable("the database does not answer", "check it")


class Answering:
    """Operations that answer each query with what is next, or raise it."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)

    async def find(self, inquiry: Any) -> Any:
        """Return the next answer, or raise it."""
        inquiry.close()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_read_that_fails_is_said_once_and_counted() -> None:
    """Once for each time that it begins to fail; the last figures stay."""
    clock, operations = Clock(), Answering(REFUSED, REFUSED, "figures", SILENT, SILENT)
    reader = InstallationReader(clock, operations, "txqueue")  # type: ignore[arg-type]
    found: list[Any] = []
    with capturedLogs() as logs:
        while operations.answers:
            found.append((await reader.read())[0])
            clock.advance(60)
    assert found == [None, None, "figures", "figures", "figures"]
    said = [formatEvent(event) for event in logs]
    assert [text.partition(": ")[2] for text in said] == [str(REFUSED), str(SILENT)]
    assert reader.errors == 4
    assert values([*process_families(reader.errors, None)])["txqueue_scrape_errors_total"] == 4


def values(families: list[Metric]) -> dict[str, float]:
    """The samples by name."""
    return {sample.name: sample.value for family in families for sample in family.samples}
