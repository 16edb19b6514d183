"""When a node notifies clients of ended jobs: at once while some wait, else now and then."""

from txqueue.policy.endings.reports import ASKED_EVERY, LONGEST_NOTICE, EndNotices


def answered(awaited: float) -> EndNotices:
    """Notices after a first notification at moment 0, to which the database has answered."""
    notices = EndNotices()
    notices.note("1")
    notices.take(0.0)
    notices.answered(awaited, 0.0)
    return notices


def test_without_an_end_there_is_nothing_to_say() -> None:
    """However long clients wait."""
    assert EndNotices().pause(0.0) is None
    assert answered(10.0).pause(1.0) is None


def test_the_first_end_is_told_at_once() -> None:
    """A client may wait, as far as the node knows."""
    notices = EndNotices()
    notices.note("5")
    assert notices.pause(100.0) == 0.0
    assert notices.take(100.0) == "5"


def test_while_clients_wait_ends_are_told_at_once() -> None:
    """Together, those that have gathered."""
    notices = answered(10.0)
    notices.note("5,6")
    notices.note("7")
    assert notices.pause(9.9) == 0.0
    assert notices.take(9.9) == "5,6,7"
    assert notices.pause(9.9) is None


def test_while_no_client_waits_ends_are_gathered() -> None:
    """One statement for all of a moment, as none may be interested."""
    notices = answered(0.0)
    notices.note("5")
    assert notices.pause(0.0) == ASKED_EVERY
    assert notices.pause(2 * ASKED_EVERY) == 0.0


def test_clients_that_no_longer_ask_count_as_gone() -> None:
    """They renew their request while they wait."""
    notices = answered(10.0)
    notices.note("5")
    notices.take(9.99)
    notices.note("6")
    assert notices.pause(9.99) == 0.0
    assert 0.0 < (notices.pause(10.0) or 0.0) < ASKED_EVERY


def test_too_many_ends_stand_for_any_job() -> None:
    """And take no more memory, as during an outage."""
    notices = EndNotices()
    for _ in range(LONGEST_NOTICE):
        notices.note("123,456")
    assert notices.take(0.0) == ""
    notices.note("7")
    assert notices.take(0.0) == "7"
