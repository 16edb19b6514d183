"""What users install: wheels and source distributions that work far from this tree."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import venv
import zipfile
from collections.abc import Iterable, Iterator
from configparser import ConfigParser
from email.message import Message
from email.parser import Parser
from importlib.metadata import Distribution, distribution
from pathlib import Path
from threading import Timer
from typing import Final

import pytest
from packaging.requirements import Requirement

from tests.release import build, build_again, build_driver, check, compare, export, hashes
from txqueue.cli.root import INSTALL

ROOT: Final = Path(__file__).resolve().parents[2]
SQL: Final = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "schema").rglob("*.sql"))

pytestmark = pytest.mark.slow(
    "setup.cfg",
    "pyproject.toml",
    "VERSION",
    "packaging",
    "laboratory/setup.cfg",
    "laboratory/setup.py",
)

READ_THE_SCHEMA: Final = """
from importlib.resources import files
import txqueue
print(txqueue.__file__ or list(txqueue.__path__)[0])
def read(place, name):
    for entry in place.iterdir():
        if entry.is_dir():
            read(entry, f"{name}/{entry.name}")
        elif entry.name.endswith(".sql") and name.count("/"):
            print(f"{name}/{entry.name}", len(entry.read_text("utf-8")))
read(files("txqueue.schema"), "schema")
"""


APPLICATION: Final = """
from attrs import define
from txqueue import WorkItem

@define
class Greet(WorkItem):
    name: str
    work_type = "greet"

    async def perform(self, job):
        print(f"hello {self.name}", flush=True)
"""


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with both source distributions and the wheels that were built from them."""
    folder = tmp_path_factory.mktemp("dist")
    build(export(tmp_path_factory.mktemp("release") / "tree"), folder)
    return folder


@pytest.fixture(scope="session")
def elsewhere(distributions: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel and what it requires: no extra, nothing of this tree."""
    place = tmp_path_factory.mktemp("elsewhere")
    venv.create(place, with_pip=False, symlinks=True)
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    wanted = [
        Requirement(line)
        for line in setup["options"]["install_requires"].splitlines()
        if line and not line.startswith("#")
    ]
    for each in required_by(wanted):
        link(each, packages_of(place))
    install(place, next(distributions.glob("txqueue-*.whl")))
    return place


@pytest.fixture(scope="session")
def laboratory(
    elsewhere: Path, distributions: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """An environment that has the other wheel as well."""
    place = tmp_path_factory.mktemp("laboratory")
    venv.create(place, with_pip=False, symlinks=True)
    (packages_of(place) / "elsewhere.pth").write_text(f"{packages_of(elsewhere)}\n")
    install(place, next(distributions.glob("txqueue_torture-*.whl")))
    return place


def required_by(wanted: list[Requirement]) -> Iterator[Distribution]:
    """Yield the installed distributions that these requirements lead to, each once."""
    seen: set[tuple[str, frozenset[str]]] = set()
    names: set[str] = set()
    while wanted:
        needed = wanted.pop()
        key = (needed.name.lower(), frozenset(needed.extras))
        if key in seen or not applies(needed, ""):
            continue
        seen.add(key)
        found = distribution(needed.name)
        for line in found.requires or ():
            further = Requirement(line)
            if any(applies(further, extra) for extra in needed.extras or {""}):
                further.marker = None
                wanted.append(further)
        if needed.name.lower() not in names:
            names.add(needed.name.lower())
            yield found


def applies(needed: Requirement, extra: str) -> bool:
    """Tell whether a requirement is one of this machine and this extra."""
    return needed.marker is None or needed.marker.evaluate({"extra": extra})


def link(found: Distribution, packages: Path) -> None:
    """Put a distribution of this environment into another one."""
    for file in found.files or ():
        if ".." not in file.parts:
            place = packages / file
            place.parent.mkdir(parents=True, exist_ok=True)
            if not place.exists():
                place.symlink_to(Path(str(found.locate_file(file))).resolve())


def packages_of(place: Path) -> Path:
    """Return the folder in which an environment has its packages."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    return place / "lib" / version / "site-packages"


def install(place: Path, wheel: Path) -> None:
    """Install a wheel as pip does, without looking for what it requires."""
    pip = (sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", str(place))
    run(*pip, "install", "--quiet", "--no-deps", "--no-index", "--ignore-installed", str(wheel))
    # What the wheel requires is there.
    run(*pip, "check")


def run(*command: str, folder: Path | None = None) -> str:
    """Run a command without this process's environment.

    Args:
        command: The command.
        folder: Where to run it.

    Returns:
        What it printed.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))}
    done = subprocess.run(
        command, cwd=folder, env=kept, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_two_builds_have_the_same_bytes(distributions: Path, tmp_path: Path) -> None:
    """In another folder, with later files, and with wheels that come from the tree itself."""
    found = hashes(distributions)
    assert len(found) == 4
    compare(found, hashes(build_again(tmp_path)))
    with pytest.raises(SystemExit, match="two builds differ: "):
        compare(found, {**found, "SHA256SUMS": ""})


def test_the_index_would_take_them(distributions: Path) -> None:
    """Their descriptions can be shown, and the wheels hold nothing that is there by accident."""
    for name in ("twine", "check_wheel_contents"):
        pytest.importorskip(name)
    check(distributions)


def test_the_wheel_holds_what_it_should(distributions: Path) -> None:
    """The package, every SQL file and the plugin; nothing of Twisted, nothing of the laboratory."""
    with zipfile.ZipFile(next(distributions.glob("txqueue-*.whl"))) as wheel:
        names = set(wheel.namelist())
    assert {f"txqueue/{path}" for path in SQL} <= names
    ours = {name for name in names if not name.startswith(("txqueue/", "txqueue-"))}
    assert ours == {"twisted/plugins/txqueue_plugin.py"}


def test_the_source_distribution_holds_what_it_should(distributions: Path) -> None:
    """All that the wheel is built from; it was built from it."""
    with tarfile.open(next(distributions.glob("txqueue-*.tar.gz"))) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    needed = {f"txqueue/{path}" for path in SQL} | {"twisted/plugins/txqueue_plugin.py"}
    assert needed | {"setup.cfg", "pyproject.toml", "LICENSE"} <= names
    assert "twisted/__init__.py" not in names
    assert "twisted/plugins/__init__.py" not in names


def test_the_schema_is_readable(elsewhere: Path, tmp_path: Path) -> None:
    """The SQL comes out of the installed package, not out of this tree."""
    python = str(elsewhere / "bin" / "python")
    where, *entries = run(python, "-c", READ_THE_SCHEMA, folder=tmp_path).splitlines()
    assert where.startswith(str(elsewhere))
    sizes = dict(line.rsplit(" ", 1) for line in entries)
    assert [path for path in SQL if path.count("/") > 1] == sorted(sizes)
    assert all(int(size) > 0 for size in sizes.values())


def test_twistd_lists_the_plugin(elsewhere: Path, tmp_path: Path) -> None:
    """Twisted finds the plugin of the installed package."""
    twistd = "from twisted.scripts.twistd import run; run()"
    python = str(elsewhere / "bin" / "python")
    commands = run(python, "-c", twistd, "--help", folder=tmp_path).partition("Commands:")[2]
    assert "txqueue" in commands.split()


def test_the_command_runs(elsewhere: Path, tmp_path: Path) -> None:
    """The installed command starts from an empty folder."""
    assert "Usage" in run(str(elsewhere / "bin" / "txqueue"), "--help", folder=tmp_path)


@pytest.mark.parametrize("words", [("bench", "drain", "--jobs", "7"), ("torture", "--all")])
def test_a_command_that_is_not_installed_says_what_to_install(
    elsewhere: Path, tmp_path: Path, words: tuple[str, ...]
) -> None:
    """Whatever follows its name; the status is that of a wrong call."""
    command = [str(elsewhere / "bin" / "txqueue"), *words]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"error: txqueue {words[0]} is not installed; run: {INSTALL}\n"


def test_the_laboratory_adds_its_commands(laboratory: Path, tmp_path: Path) -> None:
    """They are found when the other wheel is installed beside the first."""
    txqueue = (str(laboratory / "bin" / "python"), "-c", "from txqueue.cli import main; main()")
    assert "master_kill" in run(*txqueue, "torture", "--list", folder=tmp_path)
    assert "--waves" in run(*txqueue, "bench", "decay", "--help", folder=tmp_path)


def metadata(wheel: Path) -> Message:
    """Return the metadata of a wheel."""
    with zipfile.ZipFile(wheel) as content:
        [name] = [each for each in content.namelist() if each.endswith("/METADATA")]
        return Parser().parsestr(content.read(name).decode())


def test_both_distributions_have_the_version_of_one_file(distributions: Path) -> None:
    """The second requires the first of that version, and was built from its source distribution."""
    version = (ROOT / "VERSION").read_text("utf-8").strip()
    [first] = map(metadata, distributions.glob("txqueue-*.whl"))
    [second] = map(metadata, distributions.glob("txqueue_torture-*.whl"))
    assert first["Version"] == second["Version"] == version
    assert second.get_all("Requires-Dist") == [f"txqueue=={version}"]
    for name in ("License-Expression", "Classifier", "Author"):
        assert second.get_all(name)
        assert set(second.get_all(name, [])) & set(first.get_all(name, []))


def test_the_version_stands_nowhere_else() -> None:
    """Not in the files that build the distributions, the image and the site."""
    version = re.escape((ROOT / "VERSION").read_text("utf-8").strip())
    alone = re.compile(rf"(?<![\d.]){version}(?![\d.])")
    names = ("setup.cfg", "pyproject.toml", "packaging/Dockerfile", "docs/site/conf.py")
    ours = (*names, "laboratory/setup.cfg", "laboratory/setup.py", "laboratory/pyproject.toml")
    assert [name for name in ours if alone.search((ROOT / name).read_text("utf-8"))] == []


def test_the_licence_is_declared_as_pep_639_says(distributions: Path) -> None:
    """By an expression and the file with its text, in both wheels."""
    for path in distributions.glob("*.whl"):
        fields = metadata(path)
        assert (fields["License-Expression"], fields["License-File"]) == ("MIT", "LICENSE")
        with zipfile.ZipFile(path) as wheel:
            assert any(each.endswith(".dist-info/licenses/LICENSE") for each in wheel.namelist())


def test_a_node_runs_without_extras(
    elsewhere: Path, migrated_database18: str, tmp_path: Path
) -> None:
    """What `pip install txqueue` brings is enough to enqueue a job and to run it."""
    (tmp_path / "greetings.py").write_text(APPLICATION)
    programs = elsewhere / "bin"
    database = ("--dsn", migrated_database18)
    twistd = "from twisted.scripts.twistd import run; run()"
    words = ("-n", "--pidfile=", "txqueue", *database, "--app", "greetings", "--state-dir", ".")
    with subprocess.Popen(
        [programs / "python", "-c", twistd, *words],
        cwd=tmp_path,
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as node:
        bound = Timer(60, node.kill)
        bound.start()
        assert node.stdout is not None
        said = lines_until(node.stdout, "registered as node")
        payload = ("greet", '{"name": "world"}')
        run(str(programs / "txqueue"), "enqueue", *payload, *database, folder=tmp_path)
        said += lines_until(node.stdout, "hello world")
        node.terminate()
        said += list(node.stdout)
        bound.cancel()
    assert any("hello world" in line for line in said), "".join(said)


@pytest.mark.slow("setup.cfg", "packaging", "tests/release.py", "docs/howto/install.md")
def test_uv_installs_from_a_folder_with_both_wheels(distributions: Path, tmp_path: Path) -> None:
    """With the settings that the page shows; psycopg2-binary is left out where they say so.

    Without the second wheel uv refuses: when that passes, the page may forget it.
    """
    wheels = tmp_path / "wheels"
    wheels.mkdir()
    shutil.copy(next(distributions.glob("txqueue-*.whl")), wheels)
    page = (ROOT / "docs" / "howto" / "install.md").read_text("utf-8")
    [folder, override] = re.findall(r"^\[tool\.uv\]\n(.*)\n```$", page, re.MULTILINE)
    project = tmp_path / "shop"
    project.mkdir()
    settings = ["[project]", 'name = "shop"', 'version = "1"', 'requires-python = ">=3.11"']
    settings += ["[tool.uv]", folder.replace("/home/me/wheels", str(wheels)), override]
    (project / "pyproject.toml").write_text("\n".join(settings))
    uv = str(Path(sys.executable).parent / "uv")
    adding = (uv, "add", "--python", sys.executable, "txqueue")
    refused = subprocess.run(adding, cwd=project, capture_output=True, text=True, check=False)
    assert refused.returncode != 0
    assert "txpostgres" in refused.stderr
    build_driver(wheels)
    run(*adding, folder=project)
    assert "psycopg2" not in run(uv, "pip", "list", folder=project)
    declared = (project / "pyproject.toml").read_text().replace(override, "")
    (project / "pyproject.toml").write_text(declared)
    version = (ROOT / "VERSION").read_text("utf-8").strip()
    assert run(uv, "run", "txqueue", "--version", folder=project) == f"txqueue {version}\n"


def lines_until(output: Iterable[str], text: str) -> list[str]:
    """Read lines up to one with this text, or to the end."""
    lines = []
    for line in output:
        lines.append(line)
        if text in line:
            break
    return lines
