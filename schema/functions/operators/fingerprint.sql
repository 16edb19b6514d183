-- The common part of errors of one kind: the class, the message without variable parts, and the functions at
-- the end of the traceback; without line numbers, which change with every release. Null for no error.
create or replace function txqueue.fingerprint(error text) returns text
language sql immutable parallel safe
set search_path = txqueue, pg_temp
as $$
    select case when error is not null then left(md5(concat_ws(E'\n', error_kind(error), last_frames(error))), 12) end
$$;
