"""What others wrote and this repository carries or installs: of a known version, unchanged."""

import hashlib
import json
from configparser import ConfigParser
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[2]
STATIC = ROOT / "txqueue/web/static"
OUR_OWN = {"dashboard.css", "dashboard.js", "mark.svg"}
VENDORED = json.loads((ROOT / "packaging/vendored.json").read_text("utf-8"))
PINS = {
    canonicalize_name(pin.name): str(pin.specifier).removeprefix("==")
    for line in (ROOT / "packaging/constraints.txt").read_text("utf-8").splitlines()
    if not line.startswith("#")
    for pin in [Requirement(line)]
}
SETUP = ConfigParser()
SETUP.read(ROOT / "setup.cfg")
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
    """To a version that the requirement allows."""
    assert required.specifier.contains(PINS[canonicalize_name(required.name)])


@pytest.mark.parametrize("path", ["Makefile", "packaging/Dockerfile"])
def test_each_installation_uses_the_pins(path: str) -> None:
    """That of CI, which runs make, and that of the image."""
    lines = (ROOT / path).read_text("utf-8").splitlines()
    installs = [line for line in lines if "pip install" in line or "$(PIP) install" in line]
    assert installs
    assert all("--constraint" in line for line in installs)
