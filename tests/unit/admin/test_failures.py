"""What is said to a node about failures by kind, as far as it takes several turns."""

from typing import Any

from tests.unit.admin.test_client import result_of, speaking_with
from txqueue.wire import admin_commands as wire

LATER = "2030-01-31T12:00:00+00:00"


def test_all_of_a_kind_are_run_again_some_at_a_time() -> None:
    """Those that failed before the first answer, until there are none."""
    calls: list[str | None] = []

    def retry(fingerprint: str, before: str | None, **_: object) -> dict[str, Any]:
        calls.append(before)
        return {"retried": 1000 if len(calls) < 3 else 0, "before": LATER}

    admin, pump = speaking_with({wire.ACT_COMMANDS["retry_failures"]: retry})
    assert result_of(pump, admin.retry_failures("abc")) == 2000
    assert calls == [None, LATER, LATER]


def test_all_of_a_kind_are_postponed_to_one_moment() -> None:
    """The one that the first answer said."""
    calls: list[str | None] = []

    def postpone(fingerprint: str, delay: float, until: str | None, **_: object) -> dict[str, Any]:
        calls.append(until)
        return {"postponed": 2 - len(calls), "until": LATER}

    admin, pump = speaking_with({wire.ACT_COMMANDS["postpone_failures"]: postpone})
    total, until = result_of(pump, admin.postpone_failures("abc", 60.0))
    assert (total, until.isoformat(), calls) == (1, LATER, [None, LATER])
