"""The applications in examples/: each runs by its command, and so do its tests."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from socket import AF_UNIX, socket
from typing import Final

import pytest

from tests.docs.markdown import ROOT
from tests.docs.session import Session

# What each needs, where its tests are, and the last line of its tour.
APPLICATIONS: Final = {
    "twisted": ((), "twisted_shop", "the report counts 2 orders"),
    "fastapi": (
        ("psycopg", "fastapi", "uvicorn"),
        "fastapi_shop",
        "'mail': 'invoice 2: 2000 EUR'}",
    ),
    "django": (("django",), "django_shop", "'orders': 2}"),
    "calendar": ((), "systems", "4 changes were 1 push"),
    "tenants": ((), "systems", "pictures: {'big': 10000, 'small': 10}"),
    "scheduler": ((), "systems", "each of its times had one job: True"),
    "recipes": ((), "systems", "recipes.publish 2 done, 0 failed"),
    "sync": ((), "systems", "the project that rests: 0 times; overlaps: 0"),
}
TESTS: Final = sorted({tests for _, tests, _ in APPLICATIONS.values()})
RARE: Final = pytest.mark.slow("examples")
# One is played with each commit, to see that they can be started.
ALL_BUT_ONE: Final = [pytest.param(each, marks=RARE) for each in APPLICATIONS if each != "twisted"]
HAS_TASKS: Final = find_spec("django_tasks") is not None or (
    find_spec("django") is not None and find_spec("django.tasks") is not None
)
# An installed txqueue brings the plugin along.
PLUGIN: Final = {"PYTEST_PLUGINS": "txqueue.testing.plugin"}


def require(name: str) -> None:
    """Skip the test unless the packages of an application are installed."""
    for package in APPLICATIONS[name][0]:
        pytest.importorskip(package)
    if name == "django" and not HAS_TASKS:
        pytest.skip("it needs the tasks of Django 6 or of django-tasks")


@pytest.fixture(params=["twisted", *ALL_BUT_ONE])
def application(request: pytest.FixtureRequest) -> str:
    """The name of an application whose packages are installed."""
    require(request.param)
    return str(request.param)


@pytest.fixture(params=[TESTS[0], *(pytest.param(each, marks=RARE) for each in TESTS[1:])])
def folder_of_tests(request: pytest.FixtureRequest) -> str:
    """The folder of the tests of applications whose packages are installed."""
    for name, (_, tests, _) in APPLICATIONS.items():
        if tests == request.param:
            require(name)
    return str(request.param)


@pytest.fixture
def another_node(tmp_path: Path) -> Iterator[dict[str, str]]:
    """The settings of a node of this host that listens already."""
    with socket(AF_UNIX) as listening:
        listening.bind(str(tmp_path / "shop.sock"))
        listening.listen()
        yield {"TXQUEUE_NAME": "shop", "TXQUEUE_STATE_DIR": str(tmp_path)}


def test_an_application_runs_beside_another_node(
    application: str, database18: str, tmp_path: Path, another_node: dict[str, str]
) -> None:
    """Its tour comes to the end."""
    environment = {"TXQUEUE_DSN": database18, "PYTHONPATH": str(ROOT), **another_node}
    with Session(tmp_path, environment) as session:
        said = session.run(f"{sys.executable} -m examples {application}")
    assert APPLICATIONS[application][2] in said


def test_an_application_ends_with_its_node(database18: str, tmp_path: Path) -> None:
    """The last lines of the node's log say why."""
    environment = {"TXQUEUE_DSN": database18, "PYTHONPATH": str(ROOT)}
    with Session(tmp_path, {**environment, "TXQUEUE_WORKER_START": "sideways"}) as session:
        said = session.run(f"{sys.executable} -m examples twisted", fails=True)
    assert "the node ended with status 1" in said
    assert "sideways" in said.partition("the last lines of the node's log:")[2]
    assert "WaitTimeout" not in said


def test_the_tests_of_an_application_pass(
    folder_of_tests: str, dsn18: str, database18: str, tmp_path: Path
) -> None:
    """Those that a reader would run."""
    environment = {"PYTHONPATH": str(ROOT), "TXQUEUE_TEST_SERVER": dsn18, **PLUGIN}
    command = f"pytest -q -p no:cacheprovider {ROOT / 'examples' / folder_of_tests}"
    if folder_of_tests == "django_shop":
        environment = {
            "PYTHONPATH": str(ROOT),
            "TXQUEUE_DSN": database18,
            "DJANGO_SETTINGS_MODULE": "examples.django_shop.settings",
        }
        command = "django test examples.django_shop"
    with Session(tmp_path, environment) as session:
        session.run(f"{sys.executable} -m {command}")
