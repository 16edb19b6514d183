"""Calls that need no database: help, wrong calls, and what an error looks like."""

import json
import os
import shlex
from collections.abc import Iterator, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from txqueue.cli.options import Command, GlobalOptions
from txqueue.cli.output import console, table
from txqueue.cli.root import error_line, root, run
from txqueue.cli.schedules import length_or_part
from txqueue.errors import ConfigurationError, InvalidWork, Refused
from txqueue.tap import Options

NOWHERE = "host=/nonexistent user=absent"


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No setting from outside the test."""
    for name in [name for name in os.environ if name.startswith(("TXQUEUE_", "PG"))]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)


def complaint(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str]:
    """Call it; returns the exit status and the only line said."""
    status = run(words, GlobalOptions())
    said = capsys.readouterr()
    assert not said.out
    # Click ends the line on which a terminal shows ^C.
    (line,) = said.err.strip().splitlines()
    assert line.startswith("error: ")
    return status, line


@pytest.mark.parametrize("words", [(), ("--help",), ("bench", "drain", "--help"), ("--version",)])
def test_help_is_no_error(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    """Nor is a call without a command."""
    assert run(words, GlobalOptions()) == 0
    assert "txqueue" in capsys.readouterr().out


def parsed(words: Sequence[str]) -> click.Context:
    """The context of a command line, of which nothing runs."""
    context = root.make_context("txqueue", [], obj=GlobalOptions())
    command: click.Command | None = root
    left = list(words)
    while isinstance(command, click.Group) and left:
        command = command.get_command(context, left.pop(0))
    assert command is not None
    return command.make_context(words[0], left, parent=context)


def commands(group: Any = root, *path: str) -> Iterator[tuple[str, Command]]:
    """All commands of ours by their paths, without the laboratory's."""
    context = click.Context(group)
    for name in set(group.list_commands(context)) - {"bench", "torture"}:
        command = group.get_command(context, name)
        yield " ".join([*path, name]), command
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)


def test_each_command_has_examples_that_are_valid() -> None:
    """Its help shows them whole."""
    for path, command in commands():
        assert command.examples, path
        for example in command.examples:
            assert example.startswith(path)
            parsed(shlex.split(example))
    assert "\n  txqueue pause --tenant acme\n" in CliRunner().invoke(root, ["pause", "-h"]).output


def test_help_is_also_a_command() -> None:
    """With the same text as --help."""
    shown = [
        CliRunner().invoke(root, words, prog_name="txqueue").output
        for words in (["help", "schedule", "add"], ["schedule", "add", "--help"])
    ]
    assert shown[0] == shown[1]
    assert shown[0].startswith("Usage: txqueue schedule add ")


def test_the_script_of_a_shell() -> None:
    """It calls the command for each completion."""
    shown = CliRunner().invoke(root, ["completion", "fish"], obj=GlobalOptions()).output
    assert "env _TXQUEUE_COMPLETE=fish_complete" in shown


@pytest.mark.parametrize("before", [(), ("--dsn", "host=a")])
def test_a_node_is_twistd(monkeypatch: pytest.MonkeyPatch, before: tuple[str, ...]) -> None:
    """With all options as they are written, and those before the name."""
    programs: list[list[str]] = []
    monkeypatch.setattr("os.execve", lambda _, words, __: programs.append(words))
    words = ("--app", "shop", "-w", "2", "--dsn", "host=b", "--json")
    assert run((*before, "node", *words), GlobalOptions()) == 0
    [program] = programs
    assert program[-len(before) - len(words) - 3 :] == [
        *("-n", "--pidfile=", "txqueue", *before, *words)
    ]
    shown = CliRunner().invoke(root, ["node", "--help"]).output
    assert "twistd -n --pidfile= txqueue" in shown
    assert "--kill-stuck" in shown


def test_dev_without_the_extra_of_the_dashboard(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It runs the node all the same, and says what to install instead of a link."""
    monkeypatch.setenv("TXQUEUE_STATE_DIR", str(tmp_path))
    for name in ("find_spec", "_run", "signal.signal"):
        monkeypatch.setattr(f"txqueue.cli.dev.{name}", lambda *_: None)
    assert run(["dev", "--app", "shop", "--dsn", NOWHERE], GlobalOptions()) == 0
    said = capsys.readouterr().err
    assert "dashboard: it needs Jinja2; run: pip install 'txqueue[web]'" in said
    assert "http" not in said


def test_an_error_is_a_document_with_json(capsys: pytest.CaptureFixture[str]) -> None:
    """With what is wrong and the remedy apart."""
    assert run(["status", "--json", "--dsn", NOWHERE], GlobalOptions()) == 1
    error = json.loads(capsys.readouterr().err)
    assert error["error"] == "DatabaseUnavailable"
    assert "/nonexistent" in error["what"]
    assert error["remedy"].startswith("check the DSN")


def test_a_state_has_one_word_for_people() -> None:
    """Both words are understood; the one of the documents is passed on."""
    for word in ("running", "assigned"):
        assert parsed(["jobs", "--state", word]).params["state"] == "assigned"
    assert "|running|" in CliRunner().invoke(root, ["jobs", "--help"]).output


def test_no_line_of_help_is_cut_off() -> None:
    """Each command has one line."""
    for words in ([], ["schedule"], ["failures"]):
        shown = CliRunner().invoke(root, [*words, "--help"]).output.split("Commands:")[1]
        assert "..." not in shown


def test_the_help_of_a_node_has_no_gaps() -> None:
    """In the text of an option, however many lines of code the text takes."""
    options = Options().getUsage().partition("Options:")[2]
    assert [line for line in options.splitlines() if "  " in line[25:].strip()] == []


def test_the_help_of_a_command_that_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The help says how to install the command."""
    monkeypatch.setattr("txqueue.cli.root._LABORATORY", ("absent",))
    shown = CliRunner().invoke(root, ["absent", "--help"]).output
    assert "Run: pip install . ./laboratory" in shown
    assert "WORDS" not in shown


@pytest.mark.parametrize("output", [None, "wide"])
def test_a_table_outside_a_window_is_whole(
    monkeypatch: pytest.MonkeyPatch, output: str | None
) -> None:
    """In a file, and with -o wide in a window, too."""
    monkeypatch.delenv("COLUMNS", raising=False)
    if output is not None:
        monkeypatch.setenv("COLUMNS", "40")
    out = console(GlobalOptions(output=output))
    with out.capture() as captured:
        out.print(table("Kinds", ["kind", "type"], [["61b1c79f0eab", "x" * 400]]))
    assert "61b1c79f0eab  " + "x" * 400 in captured.get()


ELSEWHERE = "requeue empty defer ls ps logs init flower"
ADD = ("schedule", "add", "name", "a.type", "{}")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            (*ADD, "--every", "60s", "--tz", "Europe/Berlin"),
            "leave --tz out",
        ),
        ((*ADD, "--cooldown", "60s", "--catch-up", "all"), "leave --catch-up out"),
        (("schedule", "edit", "a", "--every", "1d", "--jitter", "-1%"), "1d, or 10% of the period"),
        (("jobs", "--running-for", "10%"), "'10%' is not a length of time"),
        (("jobs", "--running-for", "1s", "--after", "3"), "raise --limit"),
        (("failures", "postpone", "abc", "--for", "-1h"), "'--for': '-1h' is not a length of time"),
        (("fly",), "No such command"),
        (("worker",), "No such command 'worker': write txqueue node --app MODULE"),
        (("start", "--app", "shop"), "write txqueue node --app MODULE"),
        (("--app", "shop"), "write txqueue node --app MODULE"),
        (("purge",), "No such command 'purge': write txqueue cancel --all --queue QUEUE"),
        *(((name,), f"No such command '{name}': write txqueue") for name in ELSEWHERE.split()),
        *(
            (("enqueue", "t", "{}", f"--{name}", "5"), "write --not-before WHEN")
            for name in ("eta", "countdown", "delay")
        ),
        (("enqueue", "t", "{}", "--max-retries", "5"), "write --attempts N"),
        ((*ADD, "--crontab", "0 3 * * *"), "write txqueue schedule add --cron EXPR"),
        (("jobs", "--task-name", "x"), "write --type TYPE"),
        (("jobs", "--state", "started"), "'started' is no state here: write running"),
        (("bench",), "Missing command"),
        (("job", "x"), "'x'"),
        (("job", str(2**63)), "range"),
        (("jobs", "--state", "lost"), "'lost'"),
        (("enqueue", "t"), "JSON"),
        (("enqueue", "t", "{x}"), "not JSON"),
        (("enqueue", "t", '{"x": NaN}'), "no NaN"),
        # Keys below a field are data, and not shown.
        (("enqueue", "t", r'{"note": "a\u0000b"}'), "NUL"),
        (("enqueue", "t", r'{"note": "a\u0000b"}'), "cannot be stored @ $.note; leave it out"),
        (("enqueue", "t", r'{"a": ["", {"x": "\u0000"}]}'), "stored @ $.a[1][...]; leave it out"),
        (("enqueue", "t", r'{"a\u0000b": 1}'), "cannot be stored @ $, a key; leave it out"),
        (("enqueue", "t", r'{"a field": "\u0000"}'), "cannot be stored @ $[...]; leave it out"),
        (("enqueue", "t", '{"x": "\\ud800"}'), "half a surrogate pair"),
        (("enqueue", "t", "[1]"), "not a JSON object"),
        (("enqueue", "t", "{}", "--priority", "10"), "--priority"),
        (("enqueue", "t", "{}", "--weight", "0"), "not in the range 1<=x<=1000000"),
        (("enqueue", "t", "{}", "--count", "0"), "--count"),
        (("enqueue", "t", "{}", "--not-before", "2030-01-31T12:00:00"), "no time zone"),
        (("enqueue", "t", "{}", "--not-after", "tomorrow"), "not a moment"),
        (("enqueue", "t", "{}", "--after-any-end"), "name them with --after"),
        (("--schema", 'a"b', "status"), "not a plain identifier"),
        (("pause",), "name one queue, or one --group or --tenant"),
        (("pause", "mail", "--group", "g"), "name one queue"),
        (("resume", "--group", "g", "--tenant", "t"), "name one queue"),
        (("cancel",), "give job numbers, or --all"),
        (("cancel", "--all"), "give job numbers, or --all with filters"),
        (("cancel", "--queue", "mail"), "give job numbers, or --all"),
        (("cancel", "7", "--all", "--queue", "mail"), "not both"),
        (("cancel", "--all", "--state", "done"), "'done'"),
        (("retry", "x"), "'x'"),
        (("priority", "10", "7"), "10"),
        (("limit", "queue", "mail"), "say what to limit"),
        (("limit", "host", "mail"), "'host'"),
        (("limit", "queue", "mail", "--rate", "nan"), "'nan' is not a number"),
        (("limit", "queue", "mail", "--rate", "0"), "--rate"),
        (("limit", "tenant", "ann", "--share", "inf"), "'inf' is not a number"),
        (("limit", "queue", "mail", "--reserve", "1"), "--reserve"),
        (("schedule", "runs", "--late", "nan"), "'nan' is not a number"),
        (("cancel", "--all", "--since", "tomorrow"), "'tomorrow' is neither a moment"),
        (("retry", "--all", "--until", "soon"), "'soon' is neither a moment"),
        (("cancel", "--all", "--tag", "a b=1"), "names no tag"),
        (("priority", "7", "--all", "--payload", "x"), "names no key"),
        (("limit", "queue", "mail", "--concurrency", "0"), "--concurrency"),
        (("limit", "queue", "mail", "--clear", "pause"), "'pause'"),
        (("history", "--from", "never"), "is not a day or a moment"),
        (("history", "--from", "2020-01-02", "--to", "2020-01-01"), "--from is not before --to"),
        (("signal", "7"), "signal takes ID NAME [VALUE]"),
        (("signal", "7", "go", "1", "2"), "a VALUE is one argument"),
        (("signal", "seven", "go"), "'seven' is not a whole number"),
        (("signal", "7", "go", "{approved: true}"), "the value of the signal 'go' is not JSON"),
        (("signal", "7", "go", "NaN"), "the value of the signal 'go' is not JSON"),
        (("signal", "7", ""), "'' is no name of a signal"),
        (("signal", "7", "go", "--key", ""), "'' is no key of a signal"),
        (("signal", "--of", "t", "k"), "Missing argument"),
        (("signal", "--of", "t", "k", "7", "go", "1"), "NAME [VALUE] after --of TYPE UNIQUE"),
        (("drain",), "NODE"),
        (("explain", "x"), "'x'"),
    ],
)
def test_a_wrong_call(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...], said: str
) -> None:
    """Exit status 2, and one line that says what is wrong."""
    status, line = complaint(capsys, *words)
    assert status == 2
    assert said in line


@pytest.mark.parametrize(
    "words",
    [
        ("--dsn", NOWHERE, "status"),
        ("status", "--dsn", NOWHERE),
        ("migrate", "--dsn", NOWHERE),
        ("bench", "--dsn", NOWHERE, "drain", "--no-color"),
        ("bench", "drain", "--dsn", NOWHERE),
    ],
)
def test_a_server_that_does_not_answer(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """The options of every command are understood before and after its name."""
    status, line = complaint(capsys, *words)
    assert status == 1
    assert "/nonexistent" in line
    assert "; check the DSN" in line


def test_acting_needs_a_node(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One line, with what is missing and how to name it."""
    monkeypatch.setenv("TXQUEUE_STATE_DIR", str(tmp_path / "none"))
    limit = ("limit", "queue", "mail", "--rate", "1")
    for words in (("pause", "mail"), ("cancel", "1"), ("drain", "venus"), limit):
        status, line = complaint(capsys, *words)
        assert status == 1
        assert "no node is named, and none of this host listens at" in line
        assert "name a running node by its --admin endpoint: --node ENDPOINT" in line


def test_the_later_option_wins() -> None:
    """And one that is not repeated stays."""
    options = GlobalOptions()
    run(["--dsn", "host=a", "--json", "migrate", "--sql", "--dsn", "host=b"], options)
    assert (options.dsn, options.json) == ("host=b", True)


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    """Above the line, which stays the last."""
    assert run(["status", "--debug", "--dsn", NOWHERE], GlobalOptions()) == 1
    said = capsys.readouterr().err
    assert "Traceback" in said
    assert said.splitlines()[-1].startswith("error: ")


def test_migrate_prints_its_sql(capsys: pytest.CaptureFixture[str]) -> None:
    """Without a database; with the schema's name in it, and as JSON if asked to."""
    assert run(["migrate", "--sql", "--schema", "mine"], GlobalOptions()) == 0
    text = capsys.readouterr().out
    assert "create schema if not exists mine" in text
    assert "txqueue." not in text
    assert run(["migrate", "--sql", "--json", "--schema", "mine"], GlobalOptions()) == 0
    assert json.loads(capsys.readouterr().out)["sql"] == text


@pytest.mark.parametrize(
    ("error", "line", "status"),
    [
        (Refused("no", "ask again"), "no; ask again", 1),
        (ConfigurationError("bad"), "bad", 2),
        (click.ClickException("full"), "full", 1),
        (KeyError("x"), "txqueue has a fault: KeyError: 'x'; --debug shows where", 1),
    ],
)
def test_errors_in_words(error: Exception, line: str, status: int) -> None:
    """What, why and the remedy; a fault of ours says so."""
    said, code = error_line(error)
    assert said.startswith(line)
    assert code == status


def test_an_interruption(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C is no traceback."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("txqueue.store.schema.migrations.migrate", interrupt)
    assert complaint(capsys, "migrate") == (130, "error: interrupted")


def test_the_demo_takes_no_database(capsys: pytest.CaptureFixture[str]) -> None:
    """It would pass it over without a word."""
    status, line = complaint(capsys, "demo", "--dsn", NOWHERE)
    assert status == 2
    assert "txqueue bench drain --dsn" in line


def test_an_error_names_the_options_of_its_command() -> None:
    """And not the arguments of Python's calls, from whatever check it comes."""

    def fail(**_: object) -> None:
        raise InvalidWork("unique_mode and job.not_before are wrong", "give not_before, not unique")

    options = [click.Option(["--unique-mode"]), click.Option(["--not-before"])]
    with pytest.raises(InvalidWork) as caught:
        Command("c", callback=fail, params=[*options]).main([], standalone_mode=False)
    assert str(caught.value) == (
        "--unique-mode and job.not_before are wrong; give --not-before, not unique"
    )


def test_a_part_of_the_period() -> None:
    """Or a length of time."""
    assert length_or_part("10%") == 0.1
    assert length_or_part("1.5 h") == timedelta(seconds=5400)
