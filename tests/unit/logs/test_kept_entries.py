"""The last entries of a run, kept for the case that it fails."""

import logging
from collections.abc import Iterator

import pytest
from twisted.logger import Logger

from tests.unit.logs.running import SecondRun, running
from txqueue.logs.lines import keep_event, keep_records
from txqueue.model.run_log import MOST_ENTRIES

LOG = Logger("shop.mail", observer=keep_event)
LIBRARY = logging.getLogger("shop.library")


@pytest.fixture(autouse=True)
def keeping() -> Iterator[None]:
    """Have records of the library kept, at the level that a worker sets."""
    former, level = logging.getLogRecordFactory(), LIBRARY.level
    LIBRARY.setLevel(logging.DEBUG)
    keep_records()
    yield
    logging.setLogRecordFactory(former)
    LIBRARY.setLevel(level)


def messages(run: SecondRun) -> list[str]:
    """What was kept, without the times."""
    return [] if run.log is None else [each.split(" ", 1)[1] for each in run.log.entries]


def test_entries_of_both_kinds_of_loggers_are_kept_from_info_on() -> None:
    """In the order in which they were logged."""
    run = SecondRun()
    with running(run):
        LOG.debug("no")
        LOG.info("one {n}", n=1)
        LIBRARY.debug("no")
        LIBRARY.info("two %d", 2)
        # No logger, as pytest's handlers refuse such a record.
        logging.getLogRecordFactory()("shop", logging.INFO, "", 1, "wrong %d", ("x",), None)
    assert messages(run) == [
        "info shop.mail: one 1",
        "info shop.library: two 2",
        "info shop: wrong %d (TypeError with its arguments)",
    ]


def test_a_run_that_logs_nothing_has_no_log() -> None:
    """And what is logged outside of runs is not kept."""
    run = SecondRun()
    with running(run):
        pass
    LOG.info("outside")
    LIBRARY.warning("outside")
    assert run.log is None


def test_only_the_last_entries_are_kept() -> None:
    """However many there are."""
    run = SecondRun()
    with running(run):
        for number in range(1000):
            LOG.info("{number}", number=number)
    kept = messages(run)
    assert len(kept) == MOST_ENTRIES
    assert kept[-1] == "info shop.mail: 999"
