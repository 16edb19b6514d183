"""Firefox by Marionette, its protocol for tests; Playwright has a Firefox of its own only."""

import json
import re
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import count
from pathlib import Path
from subprocess import PIPE, STDOUT
from typing import Any

from attrs import define, field

__all__ = ["Firefox"]

# Firefox chooses the port, and prints it.
_ANY_PORT = 'user_pref("marionette.port", 0);\n'
_PORT = re.compile(r"Marionette.*Listening on port (\d+)")


@define
class Firefox:
    """A window, with those methods of a page of Playwright that tests of all browsers use."""

    _socket: socket.socket
    _base: str
    _numbers: Iterator[int] = field(factory=lambda: count(1))

    @classmethod
    @contextmanager
    def started(cls, program: str, folder: Path, base: str) -> "Iterator[Firefox]":
        """Start it without a screen, and end it.

        Args:
            program: Its path.
            folder: An empty folder for its profile.
            base: The address before the paths of pages.
        """
        (folder / "user.js").write_text(_ANY_PORT)
        words = [program, "--headless", "--marionette", "--no-remote", "--profile", str(folder)]
        with subprocess.Popen(words, stdout=PIPE, stderr=STDOUT, text=True) as process:
            try:
                said = map(_PORT.search, process.stdout or ())
                port = next(int(found[1]) for found in said if found)
                with closing(socket.create_connection(("127.0.0.1", port))) as line:
                    firefox = cls(line, base)
                    firefox._read()
                    firefox.send("WebDriver:NewSession")
                    yield firefox
            finally:
                process.kill()

    def send(self, name: str, **arguments: Any) -> Any:
        """Send a command and return its result."""
        text = json.dumps([0, next(self._numbers), name, arguments])
        self._socket.sendall(f"{len(text)}:{text}".encode())
        _, _, error, result = json.loads(self._read())
        assert error is None, error
        return result

    @property
    def url(self) -> str:
        """The address of the page."""
        return str(self.send("WebDriver:GetCurrentURL")["value"])

    def goto(self, path: str) -> None:
        """Open a page."""
        self.send("WebDriver:Navigate", url=self._base + path)

    def evaluate(self, expression: str, argument: object = None) -> Any:
        """Return the value of an expression, or of a function called with an argument."""
        is_function = "=>" in expression.partition("\n")[0]
        call = f"({expression})(arguments[0])" if is_function else expression
        return self.send("WebDriver:ExecuteScript", script=f"return {call}", args=[argument])[
            "value"
        ]

    def emulate_media(self, color_scheme: str) -> None:
        """Show the page in a theme, as for a visitor that has chosen it."""
        self.evaluate("theme => document.documentElement.dataset.theme = theme", color_scheme)

    def set_viewport_size(self, size: dict[str, int]) -> None:
        """Give the window a size; its frame takes some of the height."""
        self.send("WebDriver:SetWindowRect", **size)

    def _read(self) -> str:
        length, text = b"", b""
        while not length.endswith(b":"):
            length += self._socket.recv(1)
        while len(text) < int(length[:-1]):
            text += self._socket.recv(65_536)
        return text.decode()
