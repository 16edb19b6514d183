"""Statements that are sent often are prepared."""

from txqueue.store.driver.raw_connection import OFTEN, Prepared, name_of

CALL = "select txqueue.enqueue(%s::text, %s::jsonb)"


def test_a_statement_is_prepared_once_it_was_sent_often() -> None:
    """Not before: a statement sent once needs only one round trip."""
    prepared = Prepared()
    assert [prepared.is_due(CALL) for _ in range(OFTEN)] == [False] * (OFTEN - 1) + [True]
    assert prepared.execution(CALL) is None


def test_its_parameters_are_numbered() -> None:
    """In the order in which they stand."""
    prepared, name = Prepared(), name_of(CALL)
    said = prepared.preparation(CALL)
    assert said == f"prepare {name} as select txqueue.enqueue($1::text, $2::jsonb)"
    assert prepared.was_prepared(CALL) == f"execute {name} (%s, %s)"
    assert prepared.execution(CALL) == f"execute {name} (%s, %s)"


def test_a_name_means_one_statement() -> None:
    """In every session; a statement without parameters is executed without parentheses."""
    prepared = Prepared()
    assert name_of(CALL) == name_of(CALL) != name_of("select 1")
    assert prepared.was_prepared("select 1") == f"execute {name_of('select 1')}"
