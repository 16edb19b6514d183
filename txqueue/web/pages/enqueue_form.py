"""A form for a new job, made from the published schema of its type: shown, read, checked, sent."""

from __future__ import annotations

import json
from collections.abc import Mapping
from hashlib import blake2b
from http import HTTPStatus
from typing import Any, Final

from attrs import define, frozen

from txqueue.errors import ConfigurationError, InvalidWork, Refused
from txqueue.model.humanize import plain
from txqueue.model.schema_check import find_misfit
from txqueue.model.storable import check_payload, to_json
from txqueue.store.reads.dashboard import about_policy
from txqueue.web.messages import Reply
from txqueue.web.page_services import PageVisit

MOST_FIELDS: Final = 100
SENT: Final = [f"f{index}" for index in range(MOST_FIELDS)]
"""The names of the form's fields, in the order of the schema's properties."""
_NUMBERS: Final = ("integer", "number")
_NULL: Final = {"type": "null"}


@frozen
class PayloadField:
    """A field of the form.

    Attributes:
        name: The name of the payload's member.
        kind: ``text``, ``number``, ``flag`` or ``json``.
        is_required: Whether the payload must have it.
        takes_null: Whether it may be null.
        default: The text that it has at first.
    """

    name: str
    kind: str
    is_required: bool
    takes_null: bool
    default: str

    def read(self, text: str | None) -> Any:
        """Return the value of a text; the value of a flag is that of its box.

        Raises:
            ValueError: When it is not JSON.
        """
        if self.kind == "flag":
            return text is not None
        if not text and self.takes_null:
            return None
        return (text or "") if self.kind == "text" else json.loads(text or "")


@define
class PayloadForm:
    """The form as it was filled in.

    Attributes:
        fields: The fields.
        texts: What is in each, by the name of the payload's member.
        trouble: Why nothing is enqueued; None for no reason yet.
    """

    fields: list[PayloadField]
    texts: Mapping[str, str | None]
    trouble: str | None = None

    @property
    def mark(self) -> str:
        """A short text that changes with the fields, as another version of the type may be new."""
        return blake2b(repr(self.fields).encode(), digest_size=8).hexdigest()


def form_of(schema: Mapping[str, Any]) -> PayloadForm:
    """Return the form for payloads of a schema, with its defaults: the fields that it needs first.

    The database keeps the order of these only.
    """
    members, required = schema.get("properties", {}), schema.get("required", ())
    names = dict.fromkeys([*filter(members.__contains__, required), *members])
    parts = schema.get("$defs", {})
    fields = [_field(name, members[name], name in required, parts) for name in names]
    return PayloadForm(fields, {each.name: each.default or None for each in fields})


def _field(name: str, schema: Any, is_required: bool, parts: Mapping[str, Any]) -> PayloadField:
    among = [each for each in schema.get("anyOf", (schema,)) if each != _NULL]
    own = among[0] if len(among) == 1 else {}
    own = parts.get(own.get("$ref", "").rpartition("/")[2], own)
    takes_null = _NULL in schema.get("anyOf", ())
    values = own.get("enum", ())
    if own.get("type") == "string" or (values and all(isinstance(each, str) for each in values)):
        kind = "text"
    elif own.get("type") == "boolean" and not takes_null:
        kind = "flag"
    else:
        kind = "number" if own.get("type") in _NUMBERS else "json"
    default = schema.get("default")
    shown = default if kind == "text" else "" if default in (None, False) else to_json(default)
    return PayloadField(name, kind, is_required, takes_null, shown or "")


def payload_of(form: PayloadForm, schema: Mapping[str, Any]) -> str:
    """Return the payload of a form as JSON; an empty field that is not required is left out.

    Raises:
        InvalidWork: When it does not fit the schema, or cannot be stored.
    """
    payload = {}
    for field in form.fields:
        text = form.texts[field.name]
        if not text and field.kind != "flag" and not field.is_required:
            continue
        try:
            payload[field.name] = field.read(text)
        except (ValueError, RecursionError):
            what = f"{field.name} is not a number" if field.kind == "number" else None
            raise InvalidWork(what or f"{field.name} is not JSON", "correct it") from None
    if (misfit := find_misfit(schema, payload)) is not None:
        raise InvalidWork(f"the payload does not fit: {misfit}", "correct that field")
    return check_payload(json.dumps(payload))


async def enqueue_form(visit: PageVisit) -> Reply:
    """Show the form of the work type that the address names."""
    name, schema = await _schema(visit)
    return _shown(visit, name, form_of(schema))


async def enqueue(visit: PageVisit) -> Reply:
    """Enqueue a job with the payload of the form; ask again if it is wrong."""
    name, schema = await _schema(visit)
    form = form_of(schema)
    if visit.request.sent("seen") != form.mark:
        form.trouble = "a node has published other fields since this page was opened; fill them in"
        return _shown(visit, name, form, HTTPStatus.CONFLICT)
    sent = zip(form.fields, SENT, strict=False)
    texts = visit.request.form
    form.texts = {field.name: next(iter(texts.get(key, ())), None) for field, key in sent}
    try:
        arguments = {"work_type": name, "payload": payload_of(form, schema)}
        job_id, is_new = await visit.enqueue("enqueue_by_operator", arguments)
    except (InvalidWork, Refused) as error:
        form.trouble = str(error)
        return _shown(visit, name, form, HTTPStatus.UNPROCESSABLE_ENTITY)
    holder = f"No job is enqueued: job {job_id} has its unique key."
    return visit.told(f"Job {job_id} is enqueued." if is_new else holder, f"/jobs/{job_id}")


def has_form(published: Mapping[str, Any] | None) -> bool:
    """Tell whether jobs of a type can be enqueued by a form: its payloads are not encrypted."""
    if not published or not published["schema"] or published["policy"].get("encrypted"):
        return False
    members = published["schema"].get("properties")
    return members is not None and len(members) <= MOST_FIELDS


async def _schema(visit: PageVisit) -> tuple[str, Mapping[str, Any]]:
    """Return the name and the schema of the work type that the address names.

    Raises:
        ConfigurationError: When there is no form for it.
    """
    name = visit.request.exact("name") or ""
    published = await visit.find(about_policy, name)
    if published is None or not has_form(published):
        raise ConfigurationError(
            f"jobs of the type {plain(name)[:200]} cannot be enqueued here",
            "enqueue them from the application: they are encrypted, or no node has their schema",
        )
    return name, published["schema"]


def _shown(
    visit: PageVisit, name: str, form: PayloadForm, status: HTTPStatus = HTTPStatus.OK
) -> Reply:
    pairs = list(zip(SENT, form.fields, strict=False))
    return visit.show("enqueue", status, work_type=name, form=form, pairs=pairs)
