"""Where a setting comes from, and which source goes first."""

import re
from pathlib import Path
from typing import Any

import pytest

from txqueue.errors import ConfigurationError
from txqueue.system.settings import Settings

PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "settings.md"
OPTIONS = sorted(re.findall(r"^\| `--[^|]*`TXQUEUE_([A-Z_]+)` \|", PAGE.read_text(), re.MULTILINE))
OWN = 'workers = 30\nqueues = ["own", "mail"]\n'
SHARED = "[tool.txqueue]\nworkers = 40\n"


def settings_of(
    folder: Path,
    flags: dict[str, Any] | None = None,
    environ: dict[str, str] | None = None,
    own: str | None = None,
    shared: str | None = None,
) -> Settings:
    """Make settings in a folder with these files in it."""
    for name, text in {"txqueue.toml": own, "pyproject.toml": shared}.items():
        if text is not None:
            (folder / name).write_text(text)
    return Settings(flags or {}, environ or {}, folder)


@pytest.mark.parametrize(
    ("sources", "expected"),
    [
        ({"flags": {"workers": "10"}, "environ": {"TXQUEUE_WORKERS": "20"}, "own": OWN}, 10),
        ({"flags": {"workers": None}, "environ": {"TXQUEUE_WORKERS": "20"}, "own": OWN}, 20),
        ({"environ": {"TXQUEUE_WORKERS": "20"}, "own": OWN, "shared": SHARED}, 20),
        ({"environ": {"WORKERS": "20"}, "own": OWN, "shared": SHARED}, 30),
        ({"own": OWN, "shared": SHARED}, 30),
        ({"shared": SHARED}, 40),
        ({"shared": "[tool.other]\nworkers = 50\n"}, 60),
        ({}, 60),
    ],
)
def test_the_nearest_source_wins(tmp_path: Path, sources: dict[str, Any], expected: int) -> None:
    """Flag, environment, txqueue.toml, pyproject.toml, default."""
    assert expected == settings_of(tmp_path, **sources).whole("workers", 60)


def test_an_empty_dsn_is_libpq_s_own(tmp_path: Path) -> None:
    """With nothing given, libpq looks at its own PG* variables."""
    assert settings_of(tmp_path, {"dsn": None}).dsn() == ""


@pytest.mark.parametrize(
    ("flags", "environ", "own", "expected"),
    [
        ({"queues": "a, b,,c "}, {}, OWN, ["a", "b", "c"]),
        ({}, {"TXQUEUE_QUEUES": "mail"}, OWN, ["mail"]),
        ({}, {}, OWN, ["own", "mail"]),
        ({}, {}, 'queues = [" a,b"]', [" a,b"]),
        ({}, {"TXQUEUE_QUEUES": '["a,b", " c"]'}, OWN, ["a,b", " c"]),
        ({}, {"TXQUEUE_QUEUES": "[1], [b"}, OWN, ["[1]", "[b"]),
        ({}, {}, None, ["default"]),
    ],
)
def test_names_are_a_list_or_joined_by_commas(
    tmp_path: Path, flags: dict[str, Any], environ: dict[str, str], own: str, expected: list[str]
) -> None:
    """As each source can write them."""
    assert expected == settings_of(tmp_path, flags, environ, own).names("queues", ["default"])


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("many", "TXQUEUE_LEASE is 'many', not a number"),
        ("", "TXQUEUE_LEASE is '', not a number"),
        ("0.1", "TXQUEUE_LEASE is 0.1, below 0.5"),
        ("-5", "below 0.5"),
        ("nan", "TXQUEUE_LEASE is 'nan', not a number"),
        ("inf", "TXQUEUE_LEASE is 'inf', not a number"),
    ],
)
def test_a_wrong_number_of_seconds_is_refused(tmp_path: Path, text: str, complaint: str) -> None:
    """The error names the setting and what it is."""
    settings = settings_of(tmp_path, environ={"TXQUEUE_LEASE": text})
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        settings.seconds("lease", 10)
    assert caught.value.remedy.startswith("give ")


@pytest.mark.parametrize(
    ("digits", "complaint"), [(20, "above 8"), (400, "not a number from 1 to 8")]
)
def test_a_number_that_no_float_holds_is_too_large(
    tmp_path: Path, digits: int, complaint: str
) -> None:
    """The error has the range."""
    settings = settings_of(tmp_path, environ={"TXQUEUE_WORKERS": "9" * digits})
    with pytest.raises(ConfigurationError, match=complaint):
        settings.whole("workers", 2, 8)


@pytest.mark.parametrize("value", ["1.5", "one", "0", 1.5, [], True])
def test_a_wrong_whole_number_is_refused(tmp_path: Path, value: object) -> None:
    """Half a worker is none, and neither is `true`."""
    settings = settings_of(tmp_path, {"workers": value})
    with pytest.raises(ConfigurationError, match="workers is "):
        settings.whole("workers", 2)


@pytest.mark.parametrize(
    ("name", "text"),
    [("txqueue.toml", "workers = "), ("pyproject.toml", "[tool"), ("txqueue.toml", "\udcff")],
)
def test_a_broken_file_is_refused(tmp_path: Path, name: str, text: str) -> None:
    """The error names the file."""
    (tmp_path / name).write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(ConfigurationError, match=f"{name} cannot be read") as caught:
        Settings({}, {}, tmp_path)
    assert caught.value.remedy == "fix or remove it"


@pytest.mark.parametrize("text", ["tool = 7\n", "[tool]\ntxqueue = 7\n"])
def test_a_section_that_is_no_table_is_refused(tmp_path: Path, text: str) -> None:
    """Valid TOML of the wrong shape is an error of the file."""
    (tmp_path / "pyproject.toml").write_text(text)
    with pytest.raises(ConfigurationError, match=r"pyproject\.toml"):
        Settings({}, {}, tmp_path)


@pytest.mark.parametrize("value", [7, [7], [["mail"]]])
def test_names_that_are_no_texts_are_refused(tmp_path: Path, value: object) -> None:
    """A number is no queue."""
    with pytest.raises(ConfigurationError, match="queues is"):
        settings_of(tmp_path, {"queues": value}).names("queues", [])


def test_an_account_without_a_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container without HOME: only a folder that is not named is missed."""

    def unknown(uid: int) -> object:
        raise KeyError(uid)

    monkeypatch.delenv("HOME", raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    given = Settings({"state_dir": str(tmp_path)}, {}, tmp_path)
    assert given.state_dir() == tmp_path
    states = Settings({}, {"XDG_STATE_HOME": "/states"}, tmp_path)
    assert states.state_dir() == Path("/states/txqueue")
    with pytest.raises(ConfigurationError, match="HOME is not set") as caught:
        Settings({}, {}, tmp_path).state_dir()
    assert "--state-dir" in caught.value.remedy


def test_where_a_node_listens_by_default(tmp_path: Path) -> None:
    """The state directory, else that of the account; any name makes a file's name."""
    chosen = settings_of(tmp_path, environ={"TXQUEUE_STATE_DIR": "/run/shop"})
    assert chosen.node_socket("a/b") == "unix:/run/shop/a%2Fb.sock"
    usual = settings_of(tmp_path, environ={"XDG_STATE_HOME": "/state"})
    assert usual.node_socket("host") == "unix:/state/txqueue/host.sock"
    plain = settings_of(tmp_path).node_socket("host")
    assert plain == f"unix:{Path.home()}/.local/state/txqueue/host.sock"


@pytest.mark.parametrize(
    ("flags", "environ", "own", "expected"),
    [
        ({}, {}, None, [""]),
        ({"dsn": ["a", "b"]}, {"TXQUEUE_DSN": "c"}, None, ["a", "b"]),
        ({}, {"TXQUEUE_DSN": "a\n b\n"}, None, ["a", "b"]),
        ({}, {}, 'dsn = ["a", "b"]', ["a", "b"]),
        ({}, {}, 'dsn = "a"', ["a"]),
    ],
)
def test_several_databases_are_named(
    tmp_path: Path, flags: dict[str, Any], environ: dict[str, str], own: str, expected: list[str]
) -> None:
    """By options given again, by lines of the variable, by a list in the file; the first is it."""
    settings = settings_of(tmp_path, flags, environ, own)
    assert settings.dsns() == expected
    assert settings.dsn() == expected[0]


def test_a_database_that_is_named_twice_is_refused(tmp_path: Path) -> None:
    """Two nodes of one process would share its jobs for nothing; the DSN is not shown."""
    with pytest.raises(ConfigurationError, match="a DSN is given twice"):
        settings_of(tmp_path, environ={"TXQUEUE_DSN": "a\na"}).dsns()


@pytest.mark.parametrize("option", OPTIONS)
def test_a_file_may_have_each_option_that_has_a_variable(tmp_path: Path, option: str) -> None:
    """The page of the settings lists them."""
    name = option.lower()
    settings = settings_of(tmp_path, own=f'{name} = "value"\n')
    assert settings.get(name) == "value"


@pytest.mark.parametrize(
    ("sources", "label"),
    [
        ({"flags": {"tls_dir": "x"}, "environ": {"TXQUEUE_TLS_DIR": "y"}}, "--tls-dir"),
        ({"environ": {"TXQUEUE_TLS_DIR": "y"}, "own": 'tls_dir = "z"'}, "TXQUEUE_TLS_DIR"),
        ({"own": 'tls_dir = "z"'}, "tls_dir in txqueue.toml"),
        ({"shared": '[tool.txqueue]\ntls_dir = "z"'}, "tls_dir in pyproject.toml"),
        ({}, "--tls-dir"),
    ],
)
def test_a_setting_is_called_as_where_it_is_given(
    tmp_path: Path, sources: dict[str, Any], label: str
) -> None:
    """So that an error says what to correct; one that is given nowhere by its option."""
    assert settings_of(tmp_path, **sources).label("tls_dir") == label


def test_an_argument_of_a_call_has_its_own_name(tmp_path: Path) -> None:
    """It is no option of a command."""
    settings = Settings({"connection_wait": "soon"}, {}, tmp_path, is_call=True)
    with pytest.raises(ConfigurationError, match=r"^connection_wait is 'soon'"):
        settings.seconds("connection_wait", 30)


@pytest.mark.parametrize(
    ("sources", "dsns"),
    [
        ({"flags": {"dsn": ["a", "b"]}}, [("a", "--dsn"), ("b", "--dsn")]),
        ({"environ": {"TXQUEUE_DSN": "a\n b"}}, [("a", "TXQUEUE_DSN"), ("b", "TXQUEUE_DSN")]),
        ({"own": 'dsn = "a"'}, [("a", "dsn in txqueue.toml")]),
        ({}, [("", "")]),
        ({"environ": {"DATABASE_URL": "postgres://a/b"}}, [("postgresql://a/b", "DATABASE_URL")]),
        (
            {"environ": {"DATABASE_URL": "postgresql+asyncpg://u@a/b"}},
            [("postgresql://u@a/b", "DATABASE_URL")],
        ),
        ({"environ": {"DATABASE_URL": "mysql://a/b"}}, [("", "")]),
        ({"environ": {"DATABASE_URL": "postgres://a/b", "TXQUEUE_DSN": ""}}, [("", "")]),
        (
            {"environ": {"DATABASE_URL": "postgres://a/b"}, "own": 'dsn = "a"'},
            [("a", "dsn in txqueue.toml")],
        ),
    ],
)
def test_a_dsn_remembers_its_setting(
    tmp_path: Path, sources: dict[str, Any], dsns: list[tuple[str, str]]
) -> None:
    """For errors and the doctor; the application's URL counts last, if it is of PostgreSQL."""
    found = settings_of(tmp_path, **sources).dsns()
    assert [(dsn, dsn.source) for dsn in found] == dsns
