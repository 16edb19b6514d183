-- What errors of one kind have in common: the class and the message without what differs, and the functions
-- at the end of the traceback; not their lines, which move with every release. Null for no error.
create or replace function txqueue.fingerprint(error text) returns text
language sql immutable parallel safe
set search_path = txqueue, pg_temp
as $$
    select case when error is not null then left(md5(concat_ws(E'\n', error_kind(error), last_frames(error))), 12) end
$$;
