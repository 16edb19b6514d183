"""The tables of the shops of Twisted and FastAPI."""

TABLES = """
create table if not exists orders (
    id bigint generated always as identity primary key, customer text, amount int,
    state text not null default 'new', job_id bigint);
create table if not exists mail (recipient text, text text);
create table if not exists report (day date primary key, orders int)
"""
