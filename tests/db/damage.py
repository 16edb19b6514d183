"""Damages rows as a broken disk does: the values that PostgreSQL stores apart are lost."""

from __future__ import annotations

import json
from random import Random
from typing import Final

from tests.db.stored import Stored

__all__ = [
    "LARGE",
    "LOST",
    "large_json",
    "lose_large_values",
]

LARGE: Final = Random(1).randbytes(10_000).hex()
"""Too large and too random to be stored within the row."""

LOST: Final = "missing chunk number 0"

# Tables whose rows have values that are stored apart, each with the index by which these are found.
_INDEXES: Final = """
    select index.indexrelid
      from pg_class as leaf join pg_index as index on index.indrelid = leaf.reltoastrelid
     where leaf.relnamespace = 'txqueue'::regnamespace and leaf.relkind = 'r'
       and pg_relation_size(index.indrelid) > 0
"""
# The index gets the empty file of another one, until its table is truncated.
_EMPTY: Final = """
    update pg_class set relfilenode = (
        select other.relfilenode
          from pg_class as scrap join pg_index on pg_index.indrelid = scrap.reltoastrelid
          join pg_class as other on other.oid = pg_index.indexrelid
         where scrap.oid = %s::regclass)
     where oid = %s
"""


def lose_large_values(session: Stored) -> None:
    """Lose every value of the schema's tables that is stored apart, such as `LARGE`."""
    session.cursor.execute("create schema if not exists scrap")
    for index in session.column(_INDEXES):
        scrap = f"scrap.of_{session.value('select gen_random_uuid()').replace('-', '')}"
        session.cursor.execute(f"create table {scrap} (content text)")
        session.cursor.execute(_EMPTY, (scrap, index))


def large_json(**values: object) -> str:
    """An object that is stored apart."""
    return json.dumps({**values, "large": LARGE})
