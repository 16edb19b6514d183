"""Requests of a tour: wait for the server, and for what is to come."""

import json
import time
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

PATIENCE = 60.0


def ask(url: str, data: bytes | None = None) -> Any:
    """Send a request, again while the server does not listen yet; return what it answers."""
    deadline = time.monotonic() + PATIENCE
    while True:
        try:
            with urlopen(url, data) as answer:
                return json.load(answer)
        except URLError as error:
            if not isinstance(error.reason, OSError) or time.monotonic() > deadline:
                raise
        time.sleep(0.1)


def ask_until(url: str, **expected: object) -> Any:
    """Ask again until the answer has what is expected."""
    deadline = time.monotonic() + PATIENCE
    while not expected.items() <= (answer := ask(url)).items():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{url} still answers {answer}")
        time.sleep(0.1)
    return answer
