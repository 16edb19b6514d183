"""Chooses the format of the log, and begins logging in a master and in a worker."""

from __future__ import annotations

import io
import logging
import os
import signal
import sys
from collections.abc import Callable, Mapping, MutableMapping
from typing import IO, Any, ClassVar, Final

from attrs import frozen
from twisted.logger import FileLogObserver, globalLogBeginner, textFileLogObserver
from twisted.python.logfile import LogFile

from txqueue.errors import ConfigurationError
from txqueue.logs.json_output import add_json_handler, is_json_handler, json_observer
from txqueue.logs.kept_entries import keep_event, keep_records
from txqueue.logs.printed_lines import PrintedLines
from txqueue.system.line_output import line_output
from txqueue.system.settings import Settings

__all__ = [
    "begin_worker_log",
    "choose_log_format",
    "end_worker_log",
    "let_information_pass",
    "twistd_observer",
]

VARIABLE: Final = "TXQUEUE_LOG_FORMAT"
FORMATS: Final = ("text", "json")


def choose_log_format(settings: Settings, program: MutableMapping[str, Any] | None) -> None:
    """Have this master and its workers write the log in the format that the settings choose.

    Args:
        settings: The settings.
        program: The options of ``twistd`` or ``twist``, which begin logging later; None if neither
            runs.

    Raises:
        ConfigurationError: When the format is unknown, or the program writes its log otherwise.
    """
    log_format = str(settings.get("log_format", "text"))
    if log_format not in FORMATS:
        raise ConfigurationError(
            f"{settings.label('log_format')} is {log_format!r}, not a format", "give text or json"
        )
    if log_format != os.environ.get(VARIABLE, "text"):
        # Workers inherit it: they write to the log before they get their settings.
        os.environ[VARIABLE] = log_format
    if log_format == "json" and program is not None:
        _have_json(program)


def _have_json(program: MutableMapping[str, Any]) -> None:
    for option in ("syslog", "logger"):
        if program.get(option):
            raise ConfigurationError(
                f"--log-format json is given, and --{option} of twistd, which has its own format",
                "leave out one of them",
            )
    output = MasterOutput(add_json_handler(sys.stderr), program)
    MasterOutput.current = output
    # The keys by which twistd and twist make their observers; twistd imports its own by name.
    program["logger"] = f"{__name__}.{twistd_observer.__name__}"
    program["fileLogObserverFactory"] = output.observer


@frozen
class MasterOutput:
    """Where a master writes its log as JSON: the stream that twistd or twist has chosen.

    Attributes:
        handler: Writes the records of the standard library's loggers.
        program: The options of twistd or twist.
        current: The output of this process, for twistd, which imports its observer by name.
    """

    handler: logging.StreamHandler[IO[Any]]
    program: Mapping[str, Any]
    current: ClassVar[MasterOutput]

    def observer(self, stream: IO[Any]) -> FileLogObserver:
        """Return an observer that writes to a stream, to which records go too from now on."""
        self.handler.setStream(line_output(stream))
        return json_observer(stream)


def twistd_observer() -> FileLogObserver:
    """Return the observer of twistd's log, once its options are read."""
    output = MasterOutput.current
    return output.observer(_file_of_twistd(output.program))


def _file_of_twistd(program: Mapping[str, Any]) -> Any:
    """Return the file to which twistd would write its log as text."""
    is_daemon = not program.get("nodaemon")
    name = program.get("logfile") or ("twistd.log" if is_daemon else "-")
    if name == "-":
        return sys.stdout
    file = LogFile.fromFullPath(name)
    if not signal.getsignal(signal.SIGUSR1):
        signal.signal(signal.SIGUSR1, _rotating(file))
    return file


def _rotating(file: Any) -> Callable[..., None]:
    def rotate(*_: object) -> None:
        from twisted.internet import reactor

        # The reactor has no type that says which interfaces it provides.
        running_reactor: Any = reactor
        running_reactor.callFromThread(file.rotate)

    return rotate


def begin_worker_log() -> None:
    """Begin the log of a worker process, in the format that its master has chosen."""
    is_json = os.environ.get(VARIABLE) == "json"
    if is_json:
        add_json_handler(sys.stderr)
    observer = (json_observer if is_json else textFileLogObserver)(sys.stderr)
    globalLogBeginner.beginLoggingTo([observer, keep_event], redirectStandardIO=False)
    keep_records()
    if is_json:
        # What a handler prints is written as lines of the log too.
        sys.stdout = PrintedLines("stdout", sys.stdout.fileno())
        sys.stderr = PrintedLines("stderr", sys.stderr.fileno())
    else:
        _replace_what_is_not_unicode()


def _replace_what_is_not_unicode() -> None:
    """Let a handler print any text, as to a log of JSON."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def end_worker_log() -> None:
    """Write what is left of the log of a worker process, before it exits."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, PrintedLines):
            stream.end_line()
        else:
            stream.flush()


def let_information_pass() -> None:
    """Let the standard library's loggers pass the level INFO, unless the application sets them up.

    Without handlers of the application's, what the library writes by itself stays as it is:
    warnings only.
    """
    root = logging.getLogger()
    if root.level == logging.WARNING and not any(map(_is_set_up, _loggers())):
        root.setLevel(logging.INFO)


def _loggers() -> list[logging.Logger]:
    children = logging.Logger.manager.loggerDict.values()
    return [
        logging.getLogger(),
        *(child for child in children if isinstance(child, logging.Logger)),
    ]


def _is_set_up(logger: logging.Logger) -> bool:
    return not all(
        isinstance(handler, logging.NullHandler) or is_json_handler(handler)
        for handler in logger.handlers
    )
