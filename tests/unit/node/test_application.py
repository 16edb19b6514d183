"""A wrong ``--app``: the error says what to name instead."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from txqueue.errors import ConfigurationError
from txqueue.node.application import import_work_items

OF_A_PROJECT = "from django.conf import settings\nsettings.INSTALLED_APPS\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, from which modules are imported first."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", ["", *sys.path])
    monkeypatch.delenv("DJANGO_SETTINGS_MODULE", raising=False)
    return tmp_path


@pytest.mark.parametrize(
    ("app", "remedy"),
    [
        ("bureau_of_test.py", "a function: --app bureau_of_test"),
        ("./bureau_of_test.py", "a function: --app bureau_of_test"),
        ("bureau_of_test:pay", "a function: --app bureau_of_test"),
        ("shop_of_test/work.py", "a function: --app shop_of_test.work"),
        ("bureau_of_test shop_of_test", "by commas: --app bureau_of_test,shop_of_test"),
        ("absent_of_test", "run where it can be imported (PYTHONPATH)"),
    ],
)
def test_a_wrong_name_of_a_module(folder: Path, app: str, remedy: str) -> None:
    """A path, a function of it, or two joined by a space, as other programs take them."""
    (folder / "bureau_of_test.py").touch()
    with pytest.raises(ConfigurationError, match="cannot be imported") as caught:
        import_work_items([app])
    assert remedy in caught.value.remedy


def test_a_module_of_a_django_project(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error that Django raises does not tell how a node sets the project up."""
    conf = pytest.importorskip("django.conf")
    # Other tests have set a project up in this process.
    monkeypatch.setattr(conf, "settings", conf.LazySettings())
    (folder / "orders_of_test.py").write_text(OF_A_PROJECT)
    with pytest.raises(ConfigurationError) as caught:
        import_work_items(["orders_of_test"])
    assert "--app txqueue.django" in caught.value.remedy


def test_an_error_inside_of_a_module_is_not_one_of_its_name(folder: Path) -> None:
    """It is the module that is to be fixed."""
    (folder / "broken_of_test.py").write_text("import absent_of_test")
    with pytest.raises(ConfigurationError) as caught:
        import_work_items(["broken_of_test"])
    assert caught.value.remedy.startswith("fix the module")
