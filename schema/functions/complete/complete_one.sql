-- Completes one job in the caller's transaction, atomically with its writes: raises an error when its token
-- no longer holds, so that a commit in the same message does not happen. Searches the given lane first, if
-- any: with one statement, as complete() costs as much again for a single job. The progress of a job with steps is not
-- null, but may be the null of JSON.
create or replace function txqueue.complete_one(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_result jsonb, its_progress jsonb default null,
    its_lane integer default null)
returns void
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    moved    integer;
    keys     text[];
    limited  integer;
    ended    bigint[];
    results  jsonb := case when its_result is not null then jsonb_build_object(its_job_id, its_result) end;
    is_ended boolean;
    ignored  text;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        perform check_isolation('a job does not end');
    end if;
    -- The commit follows at once; this limits how long a stopped process can hold the row and its group's
    -- key.
    ignored := set_config('idle_in_transaction_session_timeout', '30s', true);
    if its_progress is null then
        case its_lane
            when 0 then select * into moved, keys, limited, ended
                from complete_in_0(its_incarnation, its_assignment, array[its_job_id], results);
            else moved := 0;
        end case;
        is_ended := moved > 0;
        if is_ended and (ended is not null or keys is not null or has_waiting_clients()) then
            perform pass_on_ends(its_job_id::text, ended, keys);
        elsif not is_ended then
            is_ended := (complete(its_incarnation, array[its_lane::smallint], array[its_assignment],
                                  array[format('{%s}', its_job_id)], array[results::text])).total > 0;
        end if;
    else
        is_ended := (settle(its_incarnation, jsonb_build_array(jsonb_build_object(
            'job_id', its_job_id, 'assignment', its_assignment, 'outcome', 'done', 'result', its_result,
            'progress', its_progress)))).settled <> '{}';
    end if;
    if not is_ended then
        raise exception using errcode = 'TXQ04', message = format('job %s has been assigned elsewhere since', its_job_id),
            hint = 'nothing: it runs there, this run''s writes are gone';
    end if;
end $$;
