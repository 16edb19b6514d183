"""Statements that are sent often are prepared."""

from txqueue.store.prepared import OFTEN, Prepared

CALL = "select txqueue.enqueue(%s::text, %s::jsonb)"


def test_a_statement_is_prepared_once_it_was_sent_often() -> None:
    """Not before: whoever sends it once is served by one round trip."""
    prepared = Prepared()
    assert [prepared.is_due(CALL) for _ in range(OFTEN)] == [False] * (OFTEN - 1) + [True]
    assert prepared.execution(CALL) is None


def test_its_parameters_are_numbered() -> None:
    """In the order in which they stand."""
    prepared = Prepared()
    said = prepared.preparation(CALL)
    assert said == "prepare txqueue_0 as select txqueue.enqueue($1::text, $2::jsonb)"
    assert prepared.was_prepared(CALL) == "execute txqueue_0 (%s, %s)"
    assert prepared.execution(CALL) == "execute txqueue_0 (%s, %s)"


def test_each_statement_has_a_name_of_its_own() -> None:
    """And one without parameters is executed without parentheses."""
    prepared = Prepared()
    prepared.was_prepared(CALL)
    assert prepared.preparation("select 1") == "prepare txqueue_1 as select 1"
    assert prepared.was_prepared("select 1") == "execute txqueue_1"
