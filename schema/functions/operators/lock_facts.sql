-- The session for which those wait that need what a process holds, and for how many seconds its transaction has been open:
-- that process, or the one for which it waits itself. The time is null if the owner of the schema may not see that
-- session. Null for a transaction of less than a second, as claims and completions hold locks for so long, and for a
-- session of a node.
create or replace function txqueue.lock_facts(its_pid integer) returns jsonb
language sql volatile
set search_path = txqueue, pg_temp
as $$
    with recursive waiting (pid) as (
        select its_pid
        union
        select blocker from waiting, unnest(pg_blocking_pids(waiting.pid)) as blocker
    )
    select jsonb_build_object('pid', pid, 'name', nullif(application_name, ''), 'seconds', seconds)
      from waiting join pg_stat_activity using (pid), lateral (select extract(epoch from clock_timestamp() - xact_start)) as its (seconds)
     where pid <> pg_backend_pid() and pg_blocking_pids(pid) = '{}' and coalesce(seconds, 1) >= 1
       and not exists (select from node_info where application_name in (left('txqueue ' || name, 63), left('txqueue worker ' || name, 63)))
     order by seconds desc limit 1
$$;
