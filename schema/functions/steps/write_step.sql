-- Writes one step of a running job in the caller's transaction, atomically with its writes: raises an error when the
-- token of the run no longer holds, so that a commit in the same message does not happen. A call names the child that
-- was enqueued for it. Searches the given lane first, if any.
create or replace function txqueue.write_step(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_name text, its_result jsonb, its_child bigint default null,
    its_lane integer default null)
returns void
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    is_held boolean;
    ignored text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform check_isolation('a step does not end');
    end if;
    ignored := set_config('idle_in_transaction_session_timeout', '30s', true);
    case its_lane
        when 0 then is_held := hold_for_step_0(its_incarnation, its_assignment, its_job_id);
        else null;
    end case;
    for search in 1 .. 16 loop
        exit when is_held;
        -- Rotation may have moved it to another lane, or may do so during this search.
        case lane_of_jobs(its_incarnation, its_assignment, array[its_job_id])
            when 0 then is_held := hold_for_step_0(its_incarnation, its_assignment, its_job_id);
            else exit;
        end case;
    end loop;
    if is_held is not true then
        raise exception using errcode = 'TXQ04', message = format('job %s has been assigned elsewhere since', its_job_id),
            hint = 'nothing: it runs there, this run''s writes are gone';
    end if;
    -- Such a job would run again and again, or wait without limit.
    if its_child is not null and awaits_end(its_child, its_job_id) then
        perform refuse(format('job %s would wait for its own end by the call %s, as job %s waits for it', its_job_id, its_name, its_child),
                       'call work that does not have the unique key of this job, and that does not wait for this job');
    end if;
    insert into job_step (job_id, name, kind, result, child, ended_at)
    values (its_job_id, its_name, case when its_child is null then 'step' else 'call' end, its_result, its_child,
            case when its_child is null then clock_timestamp() end);
end $$;
