"""Chooses the format of the log, and begins logging in a master and in a worker."""

from __future__ import annotations

import faulthandler
import logging
import os
import select
import signal
import sys
from collections.abc import Callable, Mapping, MutableMapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, cast

from twisted.logger import (
    ILogObserver,
    LegacyLogObserverWrapper,
    LogEvent,
    Logger,
    formatEvent,
    globalLogBeginner,
)
from twisted.python.logfile import LogFile
from zope.interface import provider

from txqueue.errors import ConfigurationError
from txqueue.logs.lines import (
    FORMAT_VARIABLE,
    FORMATS,
    NODE_VARIABLE,
    LineHandler,
    LineObserver,
    keep_event,
    keep_records,
)
from txqueue.logs.streams import OUTPUT, RELAY, PrintedBytes, WorkerLines, printed_lines
from txqueue.system.settings import Settings

# Options of twistd by which another observer writes the log.
_OTHERS: Final = ("syslog", "logger")
# Seconds for which the end of a master waits until its last lines are written.
LAST_LINES: Final = 1.0
_NEVER_WAITS: Final = os.O_WRONLY | os.O_APPEND | os.O_NONBLOCK | os.O_NOCTTY


def choose_log(settings: Settings, program: MutableMapping[str, Any] | None) -> None:
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
    # Workers inherit these: they write to the log before they get their settings.
    os.environ[FORMAT_VARIABLE] = log_format
    os.environ[NODE_VARIABLE] = settings.node_name()
    if program is None:
        return
    others = [option for option in _OTHERS if program.get(option)]
    if others and log_format == "json":
        raise ConfigurationError(
            f"--log-format json is given, and --{others[0]} of twistd, which has its own format",
            "leave out one of them",
        )
    RELAY.write = _log_each if others else OUTPUT.pass_on
    if not program.get("logger"):
        _write_log_of(program)


def _log_each(text: str) -> None:
    """Log the lines of workers, for an observer that is not ours."""
    for line in text.splitlines():
        Logger(namespace="worker").info("{log_io}", log_io=line)


def _write_log_of(program: MutableMapping[str, Any]) -> None:
    """Have the log of twistd or twist written by `OUTPUT`."""
    if not program.get("syslog"):
        logging.getLogger().addHandler(LineHandler(OUTPUT.write))
    # The keys by which twistd and twist make their observers; twistd imports its own by name.
    program["logger"] = f"{__name__}.{twistd_observer.__name__}"
    program["fileLogObserverFactory"] = _observer_of
    OUTPUT.program = program


def _observer_of(stream: Any) -> ILogObserver:
    """Return an observer that writes to a stream, to which all else of the node goes too."""
    stream.flush()
    OUTPUT.sink = _sink_of(stream)
    return LineObserver(OUTPUT.write)


def _sink_of(stream: Any) -> Callable[[str], object]:
    """Return what writes a text to a stream at once, without a buffer that a full disk fills."""
    try:
        return partial(_write_all, stream.fileno())
    except (AttributeError, OSError):
        return lambda text: (stream.write(text), stream.flush())


def _write_all(descriptor: int, text: str) -> None:
    data = text.encode("utf-8", "replace")
    while data:
        try:
            data = data[os.write(descriptor, data) :]
        except BlockingIOError:
            # Another process made the pipe, and chose that its writers do not wait.
            select.select([], [descriptor], [])


def twistd_observer() -> ILogObserver:
    """Return the observer of twistd's log, once its options are read."""
    program = OUTPUT.program
    if program.get("syslog"):
        return _syslog_observer(program.get("prefix") or "")
    return _observer_of(_file_of_twistd(program))


def _syslog_observer(prefix: str) -> ILogObserver:
    """Return what writes each event to the system's log, which has times and levels of its own."""
    from twisted.python.syslog import SyslogObserver

    emit: Any = SyslogObserver(prefix).emit
    syslog = LegacyLogObserverWrapper(emit)

    @provider(ILogObserver)
    def observe(event: LogEvent) -> None:
        OUTPUT.call(partial(syslog, event), formatEvent(event) + "\n")

    return cast("ILogObserver", observe)


def _file_of_twistd(program: Mapping[str, Any]) -> Any:
    """Return the file to which twistd would write its log."""
    is_daemon = not program.get("nodaemon")
    name = program.get("logfile") or ("twistd.log" if is_daemon else "-")
    if name == "-":
        return sys.stdout
    file = LogFile.fromFullPath(name)
    if not signal.getsignal(signal.SIGUSR1):
        signal.signal(signal.SIGUSR1, lambda *_: OUTPUT.call(file.rotate))
    return file


def begin_master_log() -> None:
    """Let no line wait from now on, as the reactor runs."""
    OUTPUT.is_awaited = False
    if faulthandler.is_enabled():
        # Its report must not keep the process from its end.
        with suppress(OSError):
            faulthandler.enable(os.open("/proc/self/fd/2", _NEVER_WAITS))


def end_master_log(seconds: float = LAST_LINES) -> None:
    """Write what is left of the log of a master, but not for longer than some seconds."""
    RELAY.finish()
    OUTPUT.finish(seconds)


def begin_worker_log() -> None:
    """Begin the log of a worker process, which its master writes."""
    write = WorkerLines(sys.stderr.fileno()).write
    logging.getLogger().addHandler(LineHandler(write))
    globalLogBeginner.beginLoggingTo([LineObserver(write), keep_event], redirectStandardIO=False)
    keep_records()
    sys.stdout = printed_lines("stdout", sys.stdout.fileno())
    sys.stderr = printed_lines("stderr", sys.stderr.fileno())


def end_worker_log() -> None:
    """Write what is left of the log of a worker process, before it exits."""
    for stream in (sys.stdout, sys.stderr):
        lines = getattr(stream, "buffer", None)
        if isinstance(lines, PrintedBytes):
            lines.end_line()


def let_information_pass() -> None:
    """Let the standard library's loggers pass the level INFO, unless the application sets them up.

    Without handlers of the application's, what the library writes by itself stays as it is:
    warnings only.
    """
    root = logging.getLogger()
    loggers = [root, *logging.Logger.manager.loggerDict.values()]
    # Places that only have loggers below them have no handlers.
    handlers = [each for logger in loggers for each in getattr(logger, "handlers", ())]
    is_set_up = not all(isinstance(each, logging.NullHandler | LineHandler) for each in handlers)
    if root.level == logging.WARNING and not is_set_up:
        root.setLevel(logging.INFO)
