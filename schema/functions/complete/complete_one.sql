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
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    this     record;
    is_ended boolean := false;
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
            when 0 then delete from job_assigned_0
                where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation returning * into this;
            else null;
        end case;
        is_ended := found and its_lane between 0 and 7;
        if is_ended then
            -- Not with the deletion, as complete_in() does: for a single row, that takes twice as long.
            insert into job_done (job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at,
                finished_at, assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state,
                work_type, queue, "group", tenant, options, payload, error, result, followed)
            values (this.job_id, this.rank, this.not_before, this.not_after, this.enqueued_at, this.assigned_at, this.started_at,
                clock_timestamp(), this.assignment, this.node_id, this.incarnation, this.weight, this.priority,
                least(this.attempt + 1, 32767), this.deaths, this.lane, 'done',
                this.work_type, this.queue, this."group", this.tenant, this.options, this.payload, this.error, its_result, this.followed);
            if this.followed is not null or this."group" is not null then
                perform pass_on_ends(case when this.followed is not null then array[its_job_id] end,
                                     case when this."group" is not null then array[this."group"] end);
            end if;
        else
            is_ended := (complete(its_incarnation, array[its_lane::smallint], array[its_assignment], array[format('{%s}', its_job_id)],
                                  array[case when its_result is not null then jsonb_build_object(its_job_id, its_result)::text end])).total > 0;
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
