"""The form of a new job: its fields, by the schema of the type, and the payload made of them."""

import json
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import pytest

from txqueue import WorkItem
from txqueue.errors import InvalidWork
from txqueue.model.payload_schema import payload_schema
from txqueue.web.pages.enqueue_form import SENT, PayloadForm, form_of, has_form, payload_of


@dataclass
class Order(WorkItem):
    """An order."""

    number: int
    place: Literal["shop", "web"]
    note: str | None
    lines: list[UUID]
    is_gift: bool = False
    rate: float = 1.5
    greeting: str = "hello"

    def perform(self, job: Any) -> None:
        """Do nothing."""


SCHEMA: Any = payload_schema(Order)
LINE = "12345678-1234-5678-1234-567812345678"
GOOD = {"number": "7", "place": "shop", "note": "", "lines": f'["{LINE}"]'}


def filled(**texts: str | None) -> PayloadForm:
    """Return the form with these texts; a box that is not ticked sends none."""
    form = form_of(SCHEMA)
    form.texts = {field.name: texts.get(field.name) for field in form.fields}
    return form


def test_the_fields_of_a_form() -> None:
    """Each has the kind that its values need, and the default of the class."""
    form = form_of(SCHEMA)
    assert {field.name: field.kind for field in form.fields} == {
        "number": "number",
        "place": "text",
        "note": "text",
        "lines": "json",
        "is_gift": "flag",
        "rate": "number",
        "greeting": "text",
    }
    defaults = {name: text for name, text in form.texts.items() if text is not None}
    assert defaults == {"rate": "1.5", "greeting": "hello"}
    part = {"properties": {"size": {"$ref": "#/$defs/Size"}}, "$defs": {"Size": {"enum": ["s"]}}}
    assert [field.kind for field in form_of(part).fields] == ["text"]
    changed = {**SCHEMA, "required": []}
    assert form_of(changed).mark != form.mark


def test_the_payload_of_a_form() -> None:
    """An empty field is null if it may be, and left out if it need not be there."""
    payload = {"number": 7, "place": "shop", "note": None, "lines": [LINE], "is_gift": False}
    assert json.loads(payload_of(filled(**GOOD), SCHEMA)) == payload
    more = filled(**{**GOOD, "note": " a ", "is_gift": "on", "rate": "2"})
    assert json.loads(payload_of(more, SCHEMA)) == {
        **payload,
        "note": " a ",
        "is_gift": True,
        "rate": 2,
    }


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ({"number": "seven"}, "number is not a number"),
        ({"number": "7.5"}, r"expected integer @ \$\.number"),
        ({"number": None}, "number is not a number"),
        ({"place": "home"}, r"invalid value \(enum .*\) @ \$\.place"),
        ({"lines": "[1"}, "lines is not JSON"),
        ({"lines": '["s3cret"]'}, r"\(format uuid\) @ \$\.lines\[\.\.\.\]"),
        ({"note": "\0"}, "cannot be stored"),
        ({"rate": "NaN"}, "not JSON"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused(wrong: dict[str, str | None], why: str) -> None:
    """With the field's name, and without its value."""
    with pytest.raises(InvalidWork, match=why) as caught:
        payload_of(filled(**{**GOOD, **wrong}), SCHEMA)
    assert "s3cret" not in str(caught.value)


def test_types_without_a_form() -> None:
    """Those without a published schema, encrypted ones, and those with many fields."""
    published = {"schema": SCHEMA, "policy": {}}
    assert has_form(published)
    assert not has_form(None)
    assert not has_form({**published, "schema": None})
    assert not has_form({**published, "policy": {"encrypted": True}})
    many = {**SCHEMA, "properties": {name: {} for name in (*SENT, "more")}}
    assert not has_form({**published, "schema": many})
    assert not has_form({**published, "schema": {"$ref": "#/$defs/Order", "$defs": {}}})
