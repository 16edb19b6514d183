-- Records an act of an operator.
create or replace function txqueue.note_action(who text, what text, subject text, detail jsonb default '{}') returns void
language sql volatile
set search_path = txqueue, pg_temp
as $$
    insert into action (who, what, subject, detail)
    values (coalesce(nullif(who, ''), session_user), what, subject, jsonb_strip_nulls(detail))
$$;
