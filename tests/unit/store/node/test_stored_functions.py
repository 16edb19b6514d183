"""Rules for the files of stored functions."""

from txqueue.store.schema.files import functions


def test_functions_that_clients_call_do_without_jit() -> None:
    """Its decision is by estimated costs, which calls of functions inflate."""
    called = {name: sql for name, sql in functions("txqueue") if "security definer" in sql}
    assert len(called) > 50
    assert [name for name, sql in called.items() if "\nset jit = off\n" not in sql] == []
