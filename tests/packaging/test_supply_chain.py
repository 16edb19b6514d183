"""What others wrote and this repository carries or installs: of a known version, unchanged."""

import hashlib
import json
import re
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "txqueue/web/static"
OUR_OWN = {"dashboard.css", "dashboard.js", "mark.svg"}
VENDORED = json.loads((ROOT / "packaging/vendored.json").read_text("utf-8"))
PINS = [
    Requirement(line)
    for line in (ROOT / "packaging/constraints.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
]
SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")
REQUIRED = [
    Requirement(line)
    for text in (SETUP["options"]["install_requires"], *SETUP["options.extras_require"].values())
    for line in text.splitlines()
    if line and not line.startswith(("#", "txqueue"))
]


def test_each_static_file_is_ours_or_vendored() -> None:
    """A script of unknown origin is found here."""
    found = {path.name for path in STATIC.iterdir()}
    assert found == OUR_OWN | VENDORED.keys()


@pytest.mark.parametrize("name", VENDORED)
def test_a_vendored_file_is_as_it_was_published(name: str) -> None:
    """Its package, version and hash are noted."""
    assert VENDORED[name]["version"]
    found = hashlib.sha256((STATIC / name).read_bytes()).hexdigest()
    assert found == VENDORED[name]["sha256"]


@pytest.mark.parametrize("required", REQUIRED, ids=str)
def test_what_is_installed_is_pinned(required: Requirement) -> None:
    """To a version that the requirement allows, with each Python."""
    for python in PYTHONS:
        assert is_meant_for(required, python) <= required.specifier.contains(
            pinned(required.name, python)
        )


@pytest.mark.parametrize("python", PYTHONS)
def test_each_python_gets_a_django_with_tasks(python: str) -> None:
    """Those of its own since 6.0, which needs 3.12; before, those of a package beside it."""
    has_package = any(
        each.name == "django-tasks" and is_meant_for(each, python) for each in REQUIRED
    )
    assert has_package is (Version(pinned("django", python)) < Version("6.0"))


def test_the_page_lists_what_to_install_beside_a_built_psycopg2() -> None:
    """All that is required but txpostgres and the binary package, as pip leaves out all or none."""
    page = (ROOT / "docs/howto/install.md").read_text("utf-8")
    [line] = re.findall(r"^\$ pip install psycopg2 (.*)$", page, re.MULTILINE)
    core = SETUP["options"]["install_requires"].splitlines()
    names = {Requirement(each).name for each in core if each and not each.startswith("#")}
    assert {*line.split()} == names - {"psycopg2-binary", "txpostgres"}


def pinned(name: str, python: str) -> str:
    """Return the version of a package that is installed with a Python."""
    (version,) = (
        str(pin.specifier).removeprefix("==")
        for pin in PINS
        if canonicalize_name(pin.name) == canonicalize_name(name) and is_meant_for(pin, python)
    )
    return version


def is_meant_for(requirement: Requirement, python: str) -> bool:
    """Tell whether it is one of a Python's."""
    return requirement.marker is None or requirement.marker.evaluate({"python_version": python})


@pytest.mark.parametrize("path", ["Makefile", "packaging/Dockerfile"])
def test_each_installation_uses_the_pins(path: str) -> None:
    """That of CI, which runs make, and that of the image."""
    lines = (ROOT / path).read_text("utf-8").splitlines()
    installs = [line for line in lines if "pip install" in line or "$(PIP) install" in line]
    assert installs
    assert all("--constraint" in line for line in installs)
