"""The queries that read the facts of an installation for ``txqueue doctor``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# The jobs that could run but for a node: ready ones, and those whose work type no node has
# published yet. Of more than a million only some are counted, so that the query ends soon.
RUNNABLE_JOBS: Final = """
    select queue, work_type, 'ready' as state, count(*) as jobs,
           work_type in (select known.work_type from {schema}.work_type as known) as is_published
      from ((select queue, work_type from {schema}.job_ready limit 1000000) union all
            (select queue, work_type from {schema}.job_waiting
              where waiting_for = 'type' limit 100000)) as each
     group by queue, work_type order by jobs desc limit 1000
"""

OBJECTS: Final = """
    select object, (select max(number) from {schema}.migration) as number
      from (select case relkind when 'S' then 'sequence ' else 'table ' end || relname as object
              from pg_class
             where relnamespace = to_regnamespace('{schema}') and relkind in ('r', 'p', 'S')
             union all
            select 'column ' || relname || '.' || attname
              from pg_class join pg_attribute on attrelid = pg_class.oid
             where relnamespace = to_regnamespace('{schema}') and relkind in ('r', 'p')
               and not relispartition and attnum > 0 and not attisdropped
             union all
            select concat('index of ', relname, ' (', (
                       select string_agg(coalesce(attname, 'expression'), ', ' order by place)
                         from unnest(indkey::smallint[]) with ordinality as each (number, place)
                         left join pg_attribute on attrelid = indrelid and attnum = number), ')',
                       case when indisunique then ', unique' end,
                       case when indpred is not null then ', partial' end)
              from pg_index join pg_class on pg_class.oid = indrelid
             where relnamespace = to_regnamespace('{schema}') and not exists (
                   select from pg_inherits where inhrelid = indexrelid)) as its
"""
"""What the schema has beside functions and views."""

ROWS: Final = """
    select object, (select max(number) from {schema}.migration) as number
      from (select 'row of setting' as object from {schema}.setting
             union all
            select 'row of duty: ' || name from {schema}.duty
             union all
            select 'rows of key_lock: ' || count(*) from {schema}.key_lock) as its
"""
"""The rows that migrations have written."""


PLAIN: Final[Mapping[str, str]] = {
    "settings": """
    select current_setting('server_version_num')::integer as version_number,
           current_setting('server_version') as version, pg_is_in_recovery() as is_standby,
           (select setting::bigint from pg_settings
             where name = 'idle_in_transaction_session_timeout') as idle_limit,
           (select setting from pg_settings where name = 'default_transaction_read_only')
               as default_transaction_read_only,
           current_setting('default_transaction_isolation') as default_transaction_isolation,
           current_setting('fsync') as fsync,
           current_setting('full_page_writes') as full_page_writes,
           current_setting('synchronous_commit') as synchronous_commit,
           current_setting('autovacuum') as autovacuum,
           current_setting('track_counts') as track_counts, current_setting('jit') as jit,
           current_setting('server_encoding') as encoding, current_database()::text as database
    """,
    # A role that may not see others' sessions reads no sync_state: such a standby counts as one.
    "synchronous_standbys": """
    select current_setting('synchronous_standby_names') as names,
           current_setting('synchronous_commit') as level,
           count(*) filter (where coalesce(sync_state, 'sync') in ('sync', 'quorum')) as connected
      from pg_stat_replication
    """,
    "connections": """
    select 'server' as whose, sum(numbackends)::integer as used,
           current_setting('max_connections')::integer
           - current_setting('superuser_reserved_connections')::integer
           - coalesce(current_setting('reserved_connections', true)::integer, 0) as allowed
      from pg_stat_database
    union all
    select 'database ' || datname, numbackends, datconnlimit
      from pg_database join pg_stat_database using (datname)
     where datname = current_database() and datconnlimit >= 0
    union all
    select 'role ' || rolname, count(pid)::integer, rolconnlimit
      from pg_roles left join pg_stat_activity on usename = rolname
     where rolname = current_user and rolconnlimit >= 0
     group by rolname, rolconnlimit
    """,
    "notification_queue": "select pg_notification_queue_usage() as part",
    "invalid_indexes": """
    select '{schema}' as schema, its.relname::text as index, owner.relname::text as table
      from pg_index join pg_class as its on its.oid = indexrelid
      join pg_class as owner on owner.oid = indrelid
     where its.relnamespace = to_regnamespace('{schema}') and not (indisvalid and indisready)
     order by 2 limit 20
    """,
    "lagging_sequences": "select name from {schema}.lagging_sequences() order by name",
    # The setting is read so that the query fails without the schema.
    "missing_days": """
    select leaf from {schema}.setting,
           unnest(array['job_done', 'job_cancelled', 'failed_attempt']) as parent,
           generate_series(0, 1) as ahead, lateral (
           select parent || to_char((now() at time zone 'UTC')::date + ahead, '_YYYYMMDD') as leaf
           ) as each
     where to_regclass('{schema}.' || leaf) is null
     order by 1
    """,
    "dead_rows": """
    select '{schema}' as schema, relname::text as table, n_live_tup as live, n_dead_tup as dead,
           extract(epoch from clock_timestamp())::float8 - (
               select nullif(last_value, 0) / 1000.0 from pg_sequences
                where schemaname = '{schema}' and sequencename = 'rotated')::float8
               as truncated_seconds
      from pg_stat_all_tables where schemaname = '{schema}' and n_dead_tup > 0
     order by n_dead_tup desc limit 20
    """,
    "own_rights": """
    select '{schema}' as schema, current_user::text as role,
           has_schema_privilege('{schema}', 'usage') as may_use,
           coalesce(bool_or(has_function_privilege(oid, 'execute')), true) as may_call
      from pg_proc
     where pronamespace = to_regnamespace('{schema}')
       and proname in ('enqueue', 'next_job', 'find_job', 'ensure_workset')
    """,
    "roles": """
    select role, to_regrole(role) is not null as exists
      from unnest(array['enqueue', 'worksets', 'worker', 'read']) as purpose,
           lateral (select '{schema}_' || purpose as role) as each
     where to_regnamespace('{schema}') is not null
    """,
    "public_rights": """
    select lower(privilege_type) || ' on the schema' as right
      from pg_namespace, lateral aclexplode(nspacl)
     where nspname = '{schema}' and grantee = 0
    union all
    select lower(privilege_type) || ' on ' || relname
      from pg_class, lateral aclexplode(relacl)
     where relnamespace = to_regnamespace('{schema}') and grantee = 0
    union all
    select lower(privilege_type) || ' on ' || proname || '()'
      from pg_proc, lateral aclexplode(coalesce(proacl, acldefault('f', proowner)))
     where pronamespace = to_regnamespace('{schema}') and grantee = 0
     limit 100
    """,
    # Of txqueue's own roles the check of their rights tells.
    "channel_readers": """
    select distinct '{schema}' as schema, coalesce(quote_ident(rolname), 'public') as role
      from pg_class, lateral (select relacl as acl union all
                              select attacl from pg_attribute where attrelid = pg_class.oid) as its,
           lateral aclexplode(acl) left join pg_roles on pg_roles.oid = grantee
     where pg_class.oid = to_regclass('{schema}.node_channel') and grantee <> relowner
     order by role limit 100
    """,
    # How many jobs wait for a node, if none runs: of more than a million that many.
    "unended": """
    select count(*) as jobs
      from (select from {schema}.job
             where state in ('waiting', 'ready', 'assigned') and not exists (
                   select from {schema}.node_status where state in ('alive', 'draining'))
             limit 1000000) as each
    """,
    "pauses": """
    select kind, key, who as actor,
           extract(epoch from clock_timestamp() - at)::float8 as seconds
      from {schema}.control left join lateral (
           select who, at from {schema}.action
            where subject = kind || ' ' || key and what = 'pause'
            order by action_id desc limit 1) as act on true
     where is_paused order by kind, key limit 1000
    """,
    # Those that no node runs have no jobs to hold.
    "held_types": """
    select work_type, application, error, failed, runs
      from {schema}.version_failure
     where held_at is not null and released_at is null and exists (
           select from {schema}.node_info
            where state in ('alive', 'draining') and report -> 'applications' ? application)
     order by work_type, application, held_at limit 1000
    """,
    "due_schedules": """
    select name, extract(epoch from clock_timestamp() - next_due)::float8 as seconds,
           not is_declared or work_type = any (array(
               select unnest(work_types) from {schema}.node_info
                where state in ('alive', 'draining'))) as has_class
      from {schema}.schedule
     where is_active and isfinite(next_due) and next_due < clock_timestamp() - interval '1 minute'
     order by next_due limit 1000
    """,
    "schedules": """
    select count(*) filter (where is_active) as active,
           count(*) filter (where not is_active) as paused,
           count(*) filter (where is_overdue) as overdue,
           count(*) filter (where error is not null) as refused,
           min(name) filter (where is_overdue or error is not null) as such_as
      from {schema}.schedule, lateral (
           select is_active and isfinite(next_due)
              and next_due < clock_timestamp() - interval '1 minute' as is_overdue) as each
    """,
    "archive_location": "select archive as location from {schema}.setting",
    "encrypted_types": "select work_type from {schema}.work_type"
    " where (policy ->> 'encrypted')::boolean order by 1",
}
"""Facts that any role may read that may use the schema: a query without parameters for each."""


NEEDS_ALL_SESSIONS: Final[Mapping[str, str]] = {
    "transactions": """
    select pid, coalesce(nullif(application_name, ''), usename::text) as name, state,
           extract(epoch from clock_timestamp() - xact_start)::float8 as seconds,
           backend_xmin is not null or backend_xid is not null as holds_rows
      from pg_stat_activity
     where datname = current_database() and backend_type = 'client backend'
       and xact_start is not null and pid <> pg_backend_pid()
     order by xact_start limit 50
    """,
    "prepared_transactions": """
    select gid, owner::text, extract(epoch from clock_timestamp() - prepared)::float8 as seconds
      from pg_prepared_xacts where database = current_database() order by prepared limit 20
    """,
    "replication_slots": """
    select slot_name::text as name, xmin is not null as holds_rows,
           extract(epoch from clock_timestamp()
               - (to_jsonb(slot) ->> 'inactive_since')::timestamptz)::float8 as seconds
      from pg_replication_slots as slot
     where not active and (xmin is not null or restart_lsn is not null)
     order by 1 limit 20
    """,
    "standby_feedback": """
    select pid, coalesce(nullif(application_name, ''), usename::text) as name,
           age(backend_xmin) as transactions
      from pg_stat_replication where backend_xmin is not null
     order by 3 desc limit 20
    """,
}
"""Facts that only a role can read that may see others' sessions."""

OTHER_SETTINGS: Final = """
    select name, current_setting(name) as given, value as needed
      from unnest(%s::text[], %s::text[]) as each (name, value)
     where current_setting(name, true) <> value
     order by 1
"""
"""Which of some settings have other values in the session."""

OTHER_FUNCTIONS: Final = """
    with needed as (
        select *, count(*) over (partition by name) as overloads
          from unnest(%s::text[], %s::text[], %s::text[]) as each (name, signature, digest)),
    known as (
        select proname || '()' as name,
               proname || '(' || array_to_string(array(
                   select typname from unnest(proargtypes) with ordinality as its (type, place)
                     join pg_type on pg_type.oid = its.type order by place), ',') || ')'
               as signature,
               encode(sha256(convert_to(concat_ws(chr(10), prosecdef, array_to_string(array(
                   select setting from unnest(proconfig) as setting order by setting collate "C"),
                   chr(10)), prosrc), 'UTF8')), 'hex') as digest
          from pg_proc where pronamespace = to_regnamespace('{schema}')
        union all
        select relname, relname, null from pg_class
         where relnamespace = to_regnamespace('{schema}')),
    named as (select name, count(*) as overloads from known group by name),
    latest as (select max(number) as number from {schema}.migration)
    select case when needed.overloads > 1 then needed.signature else rtrim(needed.name, '()')
           end as name,
           found.signature is null and coalesce(named.overloads, 0) < needed.overloads
           as is_missing
      from latest cross join needed
      left join known as found on found.signature = needed.signature
      left join named on named.name = needed.name
     where latest.number = %s
       and (found.signature is null or found.digest is distinct from needed.digest)
        or latest.number > %s and named.name is null
     order by 1
"""
"""Which functions and views do not exist, if the schema is up to date, and which functions have
other arguments, rights, settings or another body, if it is not newer: the digest of a view is null.
A function of other arguments may stand for one of its name, but only for one."""

EXCESS_RIGHTS: Final = """
    with granted as (select * from unnest(%s::text[], %s::text[]) as each (role, name)),
    its as (
        select oid, rolname::text as role, to_jsonb(pg_roles) as attributes
          from pg_roles
         where rolname in ('{schema}_enqueue', '{schema}_worksets', '{schema}_worker',
                           '{schema}_read'))
    select role, lower(privilege_type) || ' on ' || relname as right
      from its, pg_class, lateral aclexplode(relacl) as acl
     where relnamespace = to_regnamespace('{schema}') and grantee = its.oid
       and (privilege_type <> 'SELECT' or relname <> 'migration'
            and role in ('{schema}_enqueue', '{schema}_worksets'))
    union all
    select role, lower(privilege_type) || ' on the schema'
      from its, pg_namespace, lateral aclexplode(nspacl) as acl
     where nspname = '{schema}' and grantee = its.oid and privilege_type <> 'USAGE'
    union all
    select its.role, 'execute on ' || proname || '()'
      from its, pg_proc, lateral aclexplode(proacl) as acl
     where pronamespace = to_regnamespace('{schema}') and grantee = its.oid
       and not exists (select from granted where granted.role = its.role and name = proname)
    union all
    select role, name from its, unnest(array['rolsuper', 'rolcreaterole', 'rolcreatedb',
        'rolreplication', 'rolbypassrls']) as name
     where (attributes ->> name)::boolean
    union all
    select role, 'membership in ' || roleid::regrole
      from its join pg_auth_members on member = its.oid
     order by 1, 2 limit 100
"""
"""The rights of txqueue's roles that are not among those that are granted to them."""

LACKING_RIGHTS: Final = """
    select role, 'execute on ' || proname || '()' as right
      from unnest(%s::text[], %s::text[]) as granted (role, name)
      join pg_proc on proname = name and pronamespace = to_regnamespace('{schema}')
     where to_regrole(role) is not null
       and not has_function_privilege(to_regrole(role)::oid, pg_proc.oid, 'execute')
    union all
    select role, 'usage on the schema'
      from unnest(array['{schema}_enqueue', '{schema}_worksets', '{schema}_worker',
                        '{schema}_read']) as role
     where to_regrole(role) is not null
       and not has_schema_privilege(to_regrole(role)::oid, '{schema}', 'usage')
     order by 1, 2 limit 100
"""
"""The rights that are granted to txqueue's roles by a migration, and that they do not have."""
