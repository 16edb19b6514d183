"""The Dockerfile and the manifests name options, settings, commands and functions that exist."""

import json
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import click
import psycopg2
import pytest
import yaml

from txqueue.cli.root import root
from txqueue.system.settings import NAMES
from txqueue.tap import Options

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGING: Final = ROOT / "packaging"
DOCKERFILE: Final = PACKAGING / "Dockerfile"
MANIFESTS: Final = sorted((PACKAGING / "kubernetes").glob("*.yaml"))
UNIT: Final = ROOT / "docs" / "howto" / "run-a-node.md"
NODE: Final = PACKAGING / "kubernetes" / "node.yaml"
SCALER: Final = PACKAGING / "kubernetes" / "scaledobject.yaml"


def documents(path: Path) -> list[dict[str, Any]]:
    """Read the documents of a manifest."""
    return list(yaml.safe_load_all(path.read_text("utf-8")))


def mappings(value: object) -> Iterator[Mapping[str, Any]]:
    """Yield all mappings in a document."""
    if isinstance(value, Mapping):
        yield value
        for part in value.values():
            yield from mappings(part)
    elif isinstance(value, list):
        for part in value:
            yield from mappings(part)


def containers() -> list[Mapping[str, Any]]:
    """Return the containers of all manifests."""
    return [
        container
        for path in MANIFESTS
        for mapping in mappings(documents(path))
        for container in mapping.get("containers", ())
    ]


def instructions(name: str) -> list[str]:
    """Return the arguments of an instruction of the Dockerfile, wherever it stands."""
    text = DOCKERFILE.read_text("utf-8").replace("\\\n", " ")
    return re.findall(rf"^{name} (.*)$", text, re.MULTILINE)


def in_exec_form(text: str) -> list[str]:
    """Return the words of a command in exec form, which no shell reads."""
    words: list[str] = json.loads(text[text.index("[") :])
    return words


def command_lines() -> dict[str, list[str]]:
    """Return every command line by the place where it stands."""
    lines = {f"args of {each['name']}": each["args"] for each in containers()}
    [unit] = re.findall(r"^ExecStart=(.*)$", UNIT.read_text("utf-8"), re.MULTILINE)
    lines["the unit"] = shlex.split(unit)
    lines["CMD"] = in_exec_form(instructions("CMD")[-1])
    lines["HEALTHCHECK"] = in_exec_form(instructions("HEALTHCHECK")[0])
    for mapping in (each for path in MANIFESTS for each in mappings(documents(path))):
        if isinstance(mapping.get("command"), list):
            [shell, flag, script] = mapping["command"]
            assert (shell, flag) == ("sh", "-c")
            lines["preStop"] = shlex.split(script.partition("||")[0])
    return lines


LINES: Final = command_lines()


@pytest.mark.parametrize("line", LINES.values(), ids=list(LINES))
def test_command_lines_are_valid(line: list[str]) -> None:
    """Options of a node are known, and so are commands and their options."""
    program = Path(line[0]).name
    if program == "twistd":
        assert line[1:4] == ["-n", "--pidfile=", "txqueue"]
        known = {f"--{parameters[0]}" for parameters in Options.optParameters}
        known |= {f"--{name[4:]}" for name in vars(Options) if name.startswith("opt_")}
        assert {word for word in line[4:] if word.startswith("-")} <= known
        return
    assert program == "txqueue"
    command = root.get_command(click.Context(root), line[1])
    assert command is not None
    # Raises UsageError if an option or an argument is wrong.
    command.make_context(line[1], line[2:])


def test_a_wrong_option_would_be_found() -> None:
    """The check above is not empty."""
    command = root.get_command(click.Context(root), "health")
    assert command is not None
    with pytest.raises(click.UsageError):
        command.make_context("health", ["--reddy"])


def test_variables_are_settings() -> None:
    """A misspelt one would have no effect."""
    named = {each["name"] for container in containers() for each in container["env"]}
    named |= set(re.findall(r"\b(TXQUEUE_\w+)=", DOCKERFILE.read_text("utf-8")))
    assert "TXQUEUE_DSN" in named
    known = {f"TXQUEUE_{name.upper()}" for name in NAMES}
    assert {name for name in named if name.startswith("TXQUEUE")} <= known


def test_probes_ask_the_pages_that_are_there() -> None:
    """Liveness never asks whether the node is ready, and the ports match the endpoint."""
    [node] = [each for each in containers() if each["name"] == "node"]
    pages = {name: each["httpGet"]["path"] for name, each in node.items() if name.endswith("Probe")}
    assert pages == {
        "startupProbe": "/readyz",
        "livenessProbe": "/livez",
        "readinessProbe": "/readyz",
    }
    [endpoint] = [each["value"] for each in node["env"] if each["name"] == "TXQUEUE_HEALTH"]
    [port] = node["ports"]
    assert endpoint == f"tcp:{port['containerPort']}:interface=0.0.0.0"
    assert instructions("EXPOSE") == [str(port["containerPort"])]
    assert endpoint in DOCKERFILE.read_text("utf-8")


@pytest.mark.slow("packaging/kubernetes")
def test_manifests_fit_the_schemas_of_kubernetes(tmp_path: Path) -> None:
    """Those that it publishes, without unknown members; KEDA's objects are not among them."""
    file = tmp_path / "all.yaml"
    # The tool needs names.
    texts = [path.read_text("utf-8").replace("generateName:", "name:") for path in MANIFESTS]
    file.write_text("\n---\n".join(texts))
    uv = str(Path(sys.executable).parent / "uv")
    tool = ("tool", "run", "--from", "kubernetes-validate==1.37.0", "kubernetes-validate")
    done = subprocess.run(
        [uv, *tool, "--strict", str(file)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.findall(r"passed for resource (\w+)/", done.stdout + done.stderr)
    assert sorted(passed) == ["deployment", "job", "poddisruptionbudget"]


def test_nothing_runs_as_root() -> None:
    """And the root file system is read-only."""
    assert instructions("USER")[-1] == "10001"
    for container in containers():
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
    pods = [
        each for path in MANIFESTS for each in mappings(documents(path)) if "containers" in each
    ]
    assert all(pod["securityContext"]["runAsNonRoot"] for pod in pods)


def test_any_account_may_write_the_node_s_files() -> None:
    """Docker and OpenShift run the image as any number, in group 0."""
    [folder] = re.findall(r"\bTXQUEUE_STATE_DIR=(\S+)", DOCKERFILE.read_text("utf-8"))
    made = [run for run in instructions("RUN") if run.endswith(f" {folder}")]
    assert "--group=root --mode=0770" in made[0].rpartition("install ")[2]


def test_an_orderly_end_is_no_error() -> None:
    """twistd ends by the signal that stopped it, and tini reaps what handlers leave behind."""
    words = in_exec_form(instructions("ENTRYPOINT")[-1])
    assert words == ["tini", "-e", str(128 + signal.SIGTERM), "--"]


def test_the_scaler_may_ask_its_question(migrated_database18: str) -> None:
    """With the role that its comment names, and with one number as the answer."""
    trigger = documents(SCALER)[1]["spec"]["triggers"][0]
    assert trigger["type"] == "postgresql"
    assert trigger["authenticationRef"]["name"] == documents(SCALER)[0]["metadata"]["name"]
    target = documents(SCALER)[1]["spec"]["scaleTargetRef"]["name"]
    assert target == documents(NODE)[0]["metadata"]["name"]
    [node] = [each for each in containers() if each["name"] == "node"]
    workers = int(node["args"][node["args"].index("--workers") + 1])
    assert trigger["metadata"]["targetQueryValue"] == str(workers * 100)
    with closing(psycopg2.connect(migrated_database18)) as connection:
        cursor = connection.cursor()
        cursor.execute("set role txqueue_enqueue")
        cursor.execute(trigger["metadata"]["query"])
        assert cursor.fetchall() == [(0,)]
