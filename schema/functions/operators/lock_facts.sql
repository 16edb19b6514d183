-- The session that holds a lock, and for how many seconds its transaction has been open; the time and the name are
-- null if the owner of the schema may not see that session. Null for a transaction of less than a second: claims and
-- completions hold locks for so long.
create or replace function txqueue.lock_facts(its_pid integer) returns jsonb
language sql volatile
set search_path = txqueue, pg_temp
as $$
    select jsonb_build_object('pid', its_pid, 'name', application_name, 'seconds', seconds)
      from (select nullif(application_name, '') as application_name, extract(epoch from clock_timestamp() - xact_start) as seconds
              from pg_stat_activity where pid = its_pid and its_pid <> pg_backend_pid()) as its
     where coalesce(seconds, 1) >= 1
$$;
