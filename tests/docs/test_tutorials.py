"""The tutorials of frameworks run, from an empty folder to a test, with a server of their own."""

from pathlib import Path
from typing import Final

import pytest

from tests.docs.markdown import ROOT, blocks
from tests.docs.session import Session

PAGES: Final = ROOT / "docs" / "tutorial"
# An installed txqueue brings the plugin along.
PLUGIN: Final = {"PYTEST_PLUGINS": "txqueue.testing.plugin"}


@pytest.mark.slow("docs/tutorial")
def test_the_tutorial_of_fastapi_runs(dsn18: str, tmp_path: Path) -> None:
    """An order by HTTP, its receipt at the second attempt, a schedule, an answer to why, a test."""
    for name in ("psycopg", "fastapi", "uvicorn"):
        pytest.importorskip(name)
    with Session(tmp_path, {"TXQUEUE_TEST_SERVER": dsn18, **PLUGIN}) as session:
        session.follow(blocks(PAGES / "fastapi.md"))


@pytest.mark.slow("docs/tutorial")
def test_the_tutorial_of_django_runs(tmp_path: Path) -> None:
    """The same with Django's own tasks, or those of the package for Django 5.2."""
    pytest.importorskip("django")
    with Session(tmp_path, {}) as session:
        session.follow(blocks(PAGES / "django.md"))
