-- Cancels jobs: unclaimed ones at once; the nodes of the others read the request at their next heartbeat.
-- Returns the numbers of the first, [[incarnation, assignment, job_id], ...] of the second, and the numbers
-- of jobs that have ended or do not exist. Failed jobs become cancelled and keep their errors.
create or replace function txqueue.cancel(
    ids bigint[], who text, out cancelled bigint[], out requested jsonb, out refused bigint[])
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    found bigint[];
begin
    perform check_isolation('jobs are not cancelled');
    select ended.cancelled, ended.requested into cancelled, requested
      from cancel_jobs(ids, array_fill(coalesce(nullif(who, ''), session_user::text), array[cardinality(ids)]),
                       '{waiting,ready,failed}', true) as ended;
    found := cancelled || array(select (each ->> 2)::bigint from jsonb_array_elements(requested) as each);
    refused := array(select distinct id from unnest(ids) as id where id <> all (found) order by id);
    if cancelled <> '{}' and has_waiting_clients() then
        perform notify_ended_jobs(array_to_string(cancelled, ','));
    end if;
    if found <> '{}' then
        perform note_action(who, 'cancel', format_job_ids(found), jsonb_build_object(
            'jobs', found, 'cancelled', cardinality(cancelled), 'requested', jsonb_array_length(requested),
            'refused', cardinality(refused)));
    end if;
end $$;
