"""Makes the HTML of pages from templates."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import datetime
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Any, Final
from urllib.parse import quote_plus

from attrs import define, field, frozen
from jinja2 import Environment, PackageLoader, StrictUndefined, pass_context, select_autoescape
from jinja2.runtime import Context
from markupsafe import Markup, escape

from txqueue.model import humanize
from txqueue.web.messages import PageRequest

_KINDS: Final = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@frozen
class StaticFile:
    """A file.

    Attributes:
        body: Its content.
        kind: Its media type.
        version: Identifies the content.
    """

    body: bytes = field(repr=False)
    kind: str
    version: str


@cache
def static_files() -> Mapping[str, StaticFile]:
    """Return all files, which are read once: no path of a request leads to the file system."""
    found = {}
    for entry in (files("txqueue.web") / "static").iterdir():
        kind = _KINDS.get(entry.name[entry.name.rfind(".") :])
        if kind is not None:
            body = entry.read_bytes()
            found[entry.name] = StaticFile(body, kind, sha256(body).hexdigest()[:12])
    return found


# Pages beside those of the menu that every database has under the same address.
_COMMON: Final = frozenset({"/queues/queue", "/types/type"})
# A job that a text names: "job 12", "with job 12", "jobs 12".
_JOB = re.compile(r"\b([Jj]obs? )(\d{1,18})\b(?! jobs)")
# Where to look at what a warning is about.
WARNING_PAGES = {
    "no_node": "/nodes",
    "dead_node": "/nodes/node?name={}",
    "not_held": "/nodes/node?name={}",
    "refused": "/nodes/node?name={}",
    "no_workers": "/nodes/node?name={}",
    "unable_workers": "/nodes/node?name={}",
    "unserved_queue": "/queues/queue?name={}",
    "unknown_type": "/types/type?name={}",
    "failed_jobs": "/failures",
    "paused": "/queues",
    "full": "/queues",
    "overdue_schedules": "/schedules",
    "refused_schedules": "/schedules",
    "idle_workset": "/worksets",
}
# What the buttons of warnings say, and which page they lead to or which form they send.
_WARNING_LINKS: Final = {
    "failed_jobs": ("Retry…", "/jobs/confirm?act=retry&state=failed&work_type={}"),
    "full": ("Change its limits", "/queues/queue?name={}#limits"),
}
WARNING_FORMS: Final = {
    "resume": ("Resume", "/act/control", "resume"),
    "remove_schedule": ("Remove", "/act/schedule", "remove"),
}
_COMMAND = re.compile(r"(?<=: )(txqueue .+)")
# Longer JSON and text is cut on pages.
MOST_SHOWN = 20_000


@frozen
class Menu:
    """The menu of a database's pages.

    Attributes:
        titles: The title of each page by its path, in the order of the menu.
    """

    titles: Mapping[str, str]

    def current(self, path: str) -> str | None:
        """Return the page of the menu that a path belongs to; None if it belongs to none."""
        section = f"/{path.split('/')[1]}"
        return section if section in self.titles else None

    def same_page(self, request: PageRequest) -> str:
        """Return the address of a page in another database.

        It is that of the page's list, for what only one database has. A page of a list begins at
        the first row.
        """
        if request.path in _COMMON or request.path in self.titles:
            query = request.address(after=None)
            return request.path if query == "?" else request.path + query
        return self.current(request.path) or "/"


@frozen
class DatabaseMenu:
    """The databases to choose from, if a dashboard shows several.

    Attributes:
        paths: The path of each database's pages below the dashboard's base path, by its name.
        chosen: The one whose page is shown; None for the list of all.
    """

    paths: Mapping[str, str]
    chosen: str | None = None


@define
class Renderer:
    """Renders templates.

    Args:
        root: The base path of the whole dashboard, without a slash at its end.
        title: The name of the installation.
        menu: The pages to choose from.
        databases: The databases to choose from; None if there is only one.
    """

    _root: str
    _title: str
    _menu: Menu
    _databases: DatabaseMenu | None = None

    @property
    def _base(self) -> str:
        """The base path of the pages that it renders."""
        databases = self._databases
        if databases is None or databases.chosen is None:
            return self._root
        return self._root + databases.paths[databases.chosen]

    def _address(self, name: str) -> str:
        """Return the address of a file, which changes with its content."""
        return f"{self._root}/static/{name}?v={static_files()[name].version}"

    def page(self, name: str, request: PageRequest, **values: Any) -> str:
        """Render a page.

        Args:
            name: The template's name, without ``.html``.
            request: The request that is answered.
            values: What the template shows.
        """
        template = _templates().get_template(f"{name}.html")
        return template.render(
            root=self._root,
            base=self._base,
            databases=self._databases,
            has_pages=self._databases is None or self._databases.chosen is not None,
            static=self._address,
            title=self._title,
            menu=self._menu,
            current=self._menu.current(request.path),
            request=request,
            visitor=request.visitor,
            **values,
        )


@cache
def _templates() -> Environment:
    """Return the templates; a process compiles each once, for all its dashboards and databases."""
    environment = Environment(
        loader=PackageLoader("txqueue.web"),
        autoescape=select_autoescape(default=True, default_for_string=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals |= {"warning_forms": WARNING_FORMS}
    own = (_sentence, _lines, _pretty, _ago, _iso, _linked, _warned_page, _warned_link, _remedy)
    shared = (humanize.amount, humanize.rate, humanize.age, humanize.duration, humanize.plain)
    for function in (*own, *shared):
        environment.filters[function.__name__.lstrip("_")] = function
    return environment


def compile_templates() -> None:
    """Compile all templates: that would take most of the time of the first pages."""
    for name in _templates().list_templates():
        _templates().get_template(name)


@pass_context
def _linked(context: Context, text: object) -> Markup:
    """Return a text in which each "job N" leads to that job."""
    escaped = str(escape(humanize.plain(text)))
    return Markup(_JOB.sub(rf'<a href="{escape(context["base"])}/jobs/\2">\1\2</a>', escaped))


def _warned_page(warning: Mapping[str, str]) -> str:
    """Return the page that shows what a warning is about; empty for none."""
    pattern = WARNING_PAGES.get(warning["kind"], "")
    return pattern.format(quote_plus(warning["subject"]))


def _warned_link(warning: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the text and the address of the link to the act that ends a warning; None for none."""
    if not warning["subject"] or warning["kind"] not in _WARNING_LINKS:
        return None
    label, pattern = _WARNING_LINKS[warning["kind"]]
    return label, pattern.format(quote_plus(warning["subject"]))


def _remedy(text: str) -> Markup:
    """Return a remedy as a sentence; the command at its end is set off."""
    escaped = str(escape(humanize.plain(_sentence(text))))
    return Markup(_COMMAND.sub(r"<code>\1</code>", escaped))


def _sentence(text: str) -> str:
    """Return a message as a sentence begins; the name of a command stays as it is."""
    return text if text.startswith("txqueue ") else text[:1].upper() + text[1:]


def _lines(text: object, most: int = MOST_SHOWN) -> str:
    """Return a text of several lines, cut, with its other control characters made visible."""
    whole_text = str(text)
    shortened, size = whole_text[:most], len(whole_text)
    if size > most:
        shortened += f"\n... (cut: {most:,} of {size:,} characters)"
    return "\n".join(humanize.plain(line) for line in shortened.split("\n"))


def _pretty(value: object, most: int = MOST_SHOWN) -> str:
    """Return JSON for people, with control characters made visible."""
    return _lines(json.dumps(value, ensure_ascii=False, indent=2, default=str), most)


def _ago(moment: datetime | None, now: datetime) -> str:
    """Return how long ago a moment was, or in how long it is; a dash for none."""
    if moment is None:
        return "-"
    seconds = (now - moment).total_seconds()
    return f"{humanize.age(seconds)} ago" if seconds >= 0 else f"in {humanize.age(-seconds)}"


def _iso(moment: datetime | None) -> str:
    return "" if moment is None else moment.isoformat(" ", "milliseconds")
