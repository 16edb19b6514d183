"""Damages rows as a broken disk does: the values that PostgreSQL stores apart are lost."""

from __future__ import annotations

import json
from random import Random
from typing import Final

from tests.db.stored import Stored

__all__ = [
    "LARGE",
    "LOST",
    "delete_large_values",
    "large_json",
    "lose_files",
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
_TABLES: Final = """
    select stored.relname
      from pg_class as leaf join pg_class as stored on stored.oid = leaf.reltoastrelid
     where leaf.relnamespace = 'txqueue'::regnamespace and leaf.relkind = 'r'
       and pg_relation_size(stored.oid) > 0
"""
# Only an ordinary table takes a DELETE.
_MAKE: Final = "update pg_class set relkind = %s where relname = %s"
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


def delete_large_values(session: Stored) -> None:
    """Have every value that is stored apart be marked as deleted where it is stored.

    A row that names such values cannot be deleted. Some of them can still be read.
    """
    session.cursor.execute("set allow_system_table_mods = on")
    for table in session.column(_TABLES):
        session.cursor.execute(_MAKE, ("r", table))
        session.cursor.execute(f"delete from pg_toast.{table}")
        session.cursor.execute(_MAKE, ("t", table))


def lose_files(session: Stored) -> None:
    """Lose the files of the values that are stored apart."""
    lost = "update pg_class set relfilenode = %s where relname = %s and relkind = 't'"
    for number, table in enumerate(session.column(_TABLES), 4_000_000_000):
        session.cursor.execute(lost, (number, table))
