"""Reads settings from a flag, the environment or the configuration file: the first that has it."""

from __future__ import annotations

import json
import re
import socket
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self
from urllib.parse import quote

from txqueue.errors import ConfigurationError

PREFIX = "TXQUEUE_"
TYPED_VARIABLE = "TXQUEUE_TYPED"
"""The environment variable that tells a node the command which was typed, for its errors."""
# A year in seconds: longer ones overflow timers and the database's settings.
LONGEST: Final = 31_536_000.0
# The most workers or connections of a process.
MOST: Final = 1_000
NAMES: Final = frozenset(
    {
        *("dsn", "schema", "node", "app", "workers", "queues", "capacity", "name", "lease", "poll"),
        *("admin", "listen", "tls_dir", "state_dir", "host", "operator", "kill_stuck"),
        *("worker_start", "result_limit", "steps_limit", "connection_wait", "unreadable_for"),
        *("worker_jobs", "worker_memory"),
        *("deploy_guard", "guard_failures", "guard_share"),
        *("health", "metrics", "log_format"),
        *("web", "web_users", "web_proxy", "web_hosts", "web_base", "web_title", "web_key"),
        *("databases",),
    }
)
"""The names of all settings that a configuration file may have."""
_SWITCHES: Final = {"true": True, "1": True, "false": False, "0": False}

APPLICATION_URL: Final = "DATABASE_URL"
_POSTGRESQL_URL: Final = re.compile(r"postgres(ql)?(\+\w+)?://(?P<rest>.*)", re.DOTALL)


class ConfiguredDsn(str):
    """A DSN that remembers which setting gave it, for the error that it does not work.

    Attributes:
        source: The option, argument, variable or file; empty if none gave a DSN.
    """

    source: str

    def __new__(cls, dsn: str, source: str) -> Self:
        """Return the DSN."""
        self = super().__new__(cls, dsn)
        self.source = source
        return self


class Settings:
    """Looks up settings: flags override ``TXQUEUE_*``, which override the configuration file.

    Args:
        flags: The options of the command line, or the arguments of a call, by name; None for each
            that is not given.
        environ: The environment.
        folder: The folder of ``txqueue.toml`` or ``pyproject.toml``.
        is_call: Whether the flags are arguments of a call.

    Raises:
        ConfigurationError: When the configuration file cannot be read.
    """

    def __init__(
        self,
        flags: Mapping[str, Any],
        environ: Mapping[str, str],
        folder: Path,
        *,
        is_call: bool = False,
    ) -> None:
        self._flags = flags
        self._environ = environ
        self._is_call = is_call
        self._file_name, self._file = _from_file(folder)

    def get(self, name: str, default: Any = None) -> Any:
        """Return the value of a setting, as text if it comes from the environment."""
        return self._found(name, default)[0]

    def label(self, name: str) -> str:
        """Return a setting's name where it is given: an option, a variable or a line of a file."""
        return self._found(name, None)[1] or self._flag(name)

    def _found(self, name: str, default: Any) -> tuple[Any, str]:
        """Return the value of a setting and where it is given; the default is given nowhere."""
        if self._flags.get(name) is not None:
            return self._flags[name], self._flag(name)
        if (value := self._environ.get(variable := PREFIX + name.upper())) is not None:
            return value, variable
        if name in self._file:
            return self._file[name], f"{name} in {self._file_name}"
        return default, ""

    def _flag(self, name: str) -> str:
        return name if self._is_call else f"--{name.replace('_', '-')}"

    def whole(self, name: str, default: int, most: int = MOST) -> int:
        """Return a setting that must be a whole number, from 1 to the most.

        Raises:
            ConfigurationError: When it is not a whole number, too small or too large.
        """
        return int(self._number(name, default, (1, most), int))

    def seconds(
        self, name: str, default: float, least: float = 0.5, most: float = LONGEST
    ) -> float:
        """Return a setting that must be a number of seconds.

        Raises:
            ConfigurationError: When it is not a number, too small or too large.
        """
        return self._number(name, default, (least, most), float)

    def share(self, name: str, default: float) -> float:
        """Return a setting that must be a number from 0 to 1.

        Raises:
            ConfigurationError: When it is not a number, too small or too large.
        """
        return self._number(name, default, (0.0, 1.0), float)

    def switch(self, name: str) -> bool:
        """Return a setting that must be true or false, or 1 or 0; by default false.

        Raises:
            ConfigurationError: When it is neither.
        """
        value = self.get(name, False)
        if (said := str(value).lower()) not in _SWITCHES:
            raise ConfigurationError(
                f"{self.label(name)} is {value!r}, not true or false", "give true or false"
            )
        return _SWITCHES[said]

    def names(self, name: str, default: list[str]) -> list[str]:
        """Return a setting that must be a list, as such or in JSON, or names joined by commas.

        Raises:
            ConfigurationError: When it is neither, or empty.
        """
        value = self.get(name, default)
        parts = _parts(value) if isinstance(value, str) else value
        if not isinstance(parts, list) or not all(isinstance(part, str) for part in parts):
            raise ConfigurationError(
                f"{self.label(name)} is {value!r}, not a list of names",
                "give names joined by commas, or a list of texts",
            )
        names = [part for part in parts if part]
        if parts and not names:
            raise ConfigurationError(
                f"{self.label(name)} is {value!r}, which has no name in it",
                "give at least one name",
            )
        return names

    def node_socket(self, name: str) -> str:
        """Return the default admin socket, on this host, of this account's node of that name."""
        return f"unix:{self.state_dir() / quote(name, safe='')}.sock"

    def own_socket(self) -> str:
        """Return the default admin socket of the node that has the set name, or else the host's."""
        return self.node_socket(self.node_name())

    def node_name(self, default: str | None = None) -> str:
        """Return the name of the node; by default that of the host.

        Raises:
            ConfigurationError: When it is empty, or has a NUL character.
        """
        name = str(self.get("name", default or socket.gethostname()))
        if not name.strip() or "\0" in name:
            raise ConfigurationError(
                f"{self.label('name')} is {name!r}, not a name", "give a name, or leave it out"
            )
        return name

    def state_dir(self) -> Path:
        """Return the folder for the node's own files.

        Raises:
            ConfigurationError: When none is configured, and the account has no home.
        """
        if folder := self.get("state_dir"):
            return Path(folder)
        states = self._environ.get("XDG_STATE_HOME") or _home() / ".local" / "state"
        return Path(states) / "txqueue"

    def dsn(self) -> ConfiguredDsn:
        """Return the first configured DSN; if empty, libpq uses its own environment variables."""
        return self.dsns()[0]

    def dsns(self) -> list[ConfiguredDsn]:
        """Return the DSNs of all configured databases; at least one, which may be empty.

        If none is configured, that of the application: the variable ``DATABASE_URL``.

        Raises:
            ConfigurationError: When a DSN is given twice.
        """
        value, source = self._found("dsn", "")
        if not source:
            value, source = self._of_application()
        lines = value if isinstance(value, list) else str(value).splitlines()
        dsns = [str(dsn).strip() for dsn in lines if str(dsn).strip()]
        if len(set(dsns)) < len(dsns):
            raise ConfigurationError(f"a DSN is given twice by {source}", "give each database once")
        return [ConfiguredDsn(dsn, source) for dsn in dsns] or [ConfiguredDsn("", "")]

    def _of_application(self) -> tuple[str, str]:
        """Return the DSN of ``DATABASE_URL``, and that name; empty if it names no PostgreSQL.

        SQLAlchemy has the name of a driver in it, which libpq does not read.
        """
        match = _POSTGRESQL_URL.fullmatch(self._environ.get(APPLICATION_URL, ""))
        return (f"postgresql://{match['rest']}", APPLICATION_URL) if match else ("", "")

    def _number(
        self,
        name: str,
        default: float,
        bounds: tuple[float, float],
        kind: type[int] | type[float],
    ) -> float:
        value = self.get(name, default)
        least, most = bounds
        try:
            number = kind(value)
            # The difference is nan for inf and nan, and 0 for more digits than a float has.
            if isinstance(value, bool) or number - float(value):
                raise ValueError
        except (TypeError, ValueError, OverflowError):
            raise ConfigurationError(
                f"{self.label(name)} is {value!r}, not a number from {least} to {most}",
                f"give one, such as {default}",
            ) from None
        if number < least:
            raise ConfigurationError(
                f"{self.label(name)} is {number}, below {least}", f"give {least} or more"
            )
        if number > most:
            raise ConfigurationError(
                f"{self.label(name)} is {number}, above {most}", f"give {most} or less"
            )
        return number


def _parts(text: str) -> list[str]:
    """Return the names in a text: those of a list in JSON as they are, others without spaces."""
    if text.startswith("["):
        with suppress(ValueError):
            names = json.loads(text)
            if all(isinstance(name, str) for name in names):
                return list(names)
    return [part.strip() for part in text.split(",")]


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:
        raise ConfigurationError(
            "there is no folder for a node's files: HOME is not set, and this account has no entry"
            " in the list of users",
            "name one: --state-dir or TXQUEUE_STATE_DIR, or set HOME",
        ) from None


def _from_file(folder: Path) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the settings of the configuration file; nothing if there is none."""
    own_file, shared_file = folder / "txqueue.toml", folder / "pyproject.toml"
    if own_file.is_file():
        return own_file.name, _known(own_file, _read(own_file))
    if shared_file.is_file():
        return shared_file.name, _known(shared_file, _section(_read(shared_file)))
    return "", {}


def _known(path: Path, values: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of a file, after a check that each name is known.

    Raises:
        ConfigurationError: When a name is unknown, as a misspelt setting would have no effect.
    """
    if unknown_names := sorted(values.keys() - NAMES):
        # Imported here, as each command would wait for it.
        from difflib import get_close_matches

        matches = get_close_matches(unknown_names[0], NAMES, 1)
        remedy = (
            f"did you mean {matches[0]}?"
            if matches
            else f"valid settings are {', '.join(sorted(NAMES))}"
        )
        raise ConfigurationError(
            f"{path.name} has {unknown_names[0]}, which is not a setting", remedy
        )
    return values


def _section(document: Mapping[str, Any]) -> Mapping[str, Any]:
    tool = document.get("tool", {})
    section = tool.get("txqueue", {}) if isinstance(tool, dict) else None
    if not isinstance(section, dict):
        raise ConfigurationError(
            "[tool.txqueue] of pyproject.toml is not a table",
            "write [tool.txqueue] above its settings",
        )
    return section


def _read(path: Path) -> Mapping[str, Any]:
    # Imported late: most commands have no such file.
    import tomllib

    try:
        return tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(
            f"{path.name} cannot be read: {error}", "fix or remove it"
        ) from None
