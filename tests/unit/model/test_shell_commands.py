"""Commands that are printed as remedies: a shell gives them the names that clients have given."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from pathlib import Path

import click
import pytest

from txqueue.cli import queues as queue_actions
from txqueue.model.humanize import limit_command, plain, queues_option, resume_command
from txqueue.system.settings import Settings

NAMES = [
    "mail",
    "a mail",
    "a,b",
    " lead",
    "trail\t",
    "x\ny",
    "it's",
    "back\\slash\n\\",
    "-x",
    "--rate",
    "[a]",
    '["a"]',
    "[1]",
    "\x1b[31m7",
    "Zo\u00eb\u202e\x85f",
    "$HOME `id` !",
]


def words_of(text: str) -> Sequence[str]:
    """Return the words that a shell makes of a text, which has no character of control itself."""
    assert plain(text) == text
    script = f"printf '%s\\0' {text}"
    shell = ["bash", "-c", script]
    made = subprocess.run(shell, check=True, capture_output=True, env={"LC_ALL": "C.UTF-8"})
    return made.stdout.decode().split("\0")[:-1]


def parsed(command: click.Command, text: str) -> dict[str, object]:
    """Return the parameters that a command gets of a text for a shell."""
    return command.make_context(command.name, list(words_of(text)[2:])).params


@pytest.mark.parametrize("name", NAMES)
def test_a_node_serves_the_queue_that_a_remedy_names(tmp_path: Path, name: str) -> None:
    """And no other one, alone and among others."""
    for queues in ((name,), ("first", name)):
        option, value = words_of(queues_option(*queues))
        assert option == "--queues"
        settings = Settings({"queues": value}, {}, tmp_path)
        assert settings.names("queues", []) == list(queues)


@pytest.mark.parametrize("name", [name for name in NAMES if plain(name) == name])
def test_what_a_remedy_resumes_and_limits(name: str) -> None:
    """By its own name, unless that has characters that are not to be shown."""
    assert parsed(queue_actions.resume, resume_command("queue", name))["queue"] == name
    assert parsed(queue_actions.resume, resume_command("group", name))["group"] == name
    limited = parsed(queue_actions.limit, limit_command("tenant", name, "--concurrency 5"))
    assert (limited["kind"], limited["key"], limited["concurrency"]) == ("tenant", name, 5)


def test_an_ordinary_name_is_written_as_it_is() -> None:
    """Without quotes or brackets."""
    assert queues_option("mail", "urgent") == "--queues mail,urgent"
    assert resume_command("group", "customer:7") == "txqueue resume --group customer:7"
    assert limit_command("queue", "mail", "--rate N") == "txqueue limit queue mail --rate N"
