-- Writes one step of a running job in the caller's transaction, atomically with its writes: raises an error when the
-- token of the run no longer holds, so that a commit in the same message does not happen. A call names the child that
-- was enqueued for it.
create or replace function txqueue.write_step(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text, its_result jsonb, its_child bigint default null)
returns void
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    is_marked boolean;
    ignored   text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform check_isolation('a step does not end');
    end if;
    ignored := set_config('idle_in_transaction_session_timeout', '30s', true);
    for search in 1 .. 16 loop
        select coalesce(options ? 'steps', false) into is_marked from job_assigned
         where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation for key share;
        -- Rotation may just have moved it to another lane.
        exit when found;
    end loop;
    if is_marked is null then
        raise exception using errcode = 'TXQ04', message = format('job %s has been assigned elsewhere since', its_job_id),
            hint = 'nothing: it runs there, this run''s writes are gone';
    end if;
    if not is_marked then
        update job_assigned set options = coalesce(options, '{}') || '{"steps": true}' where job_id = its_job_id;
    end if;
    insert into job_step (job_id, name, kind, result, child, ended_at)
    values (its_job_id, its_name, case when its_child is null then 'step' else 'call' end, its_result, its_child,
            case when its_child is null then clock_timestamp() end);
end $$;
