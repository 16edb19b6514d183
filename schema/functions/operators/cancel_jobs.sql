-- Cancels jobs in some unassigned states, each for the operator beside it, and records a request for the others
-- that have not ended. Returns the numbers of the first, and [[incarnation, assignment, job_id], ...] of the
-- second. A caller that may not wait for a job that an open transaction holds leaves a request for it.
create or replace function txqueue.cancel_jobs(
    ids bigint[], whos text[], states job_state[], may_wait boolean, out cancelled bigint[], out requested jsonb)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    this   job;
    locks  constant record := lock_acted_on(ids, states, to_end => ids, may_wait => may_wait);
    named  constant bigint[] := ids;
    ended  bigint[] := '{}';
    groups text[] := '{}';
begin
    cancelled := '{}';
    perform set_config('queue_rows.are_moved', 'on', true);
    for this in
        delete from job where job_id = any (locks.locked) and state = any (states) returning *
    loop
        if this.state = 'failed' then
            this.fingerprint := null;
            this.failed_at := null;
        else
            this.error := 'cancelled by ' || whos[array_position(ids, this.job_id)];
            ended := ended || this.job_id;
            groups := groups || this."group";
        end if;
        this.state := 'cancelled';
        this.waiting_for := null;
        this.finished_at := clock_timestamp();
        if this.options ? 'steps' then
            delete from group_hold where job_id = this.job_id;
        end if;
        insert into job values (this.*);
        cancelled := cancelled || this.job_id;
    end loop;
    -- A job that no node holds, as it was returned to the queue at this moment, is any node's to cancel, unless its
    -- row is damaged.
    ids := array(select job_id from job
                  where job_id = any (ids) and (state = 'assigned' or state in ('waiting', 'ready')
                    and find_damage(options, payload, result, progress, error) is null));
    insert into request (incarnation, job_id, assignment, who)
    select coalesce(job.incarnation, 0), job.job_id, coalesce(job.assignment, 0), whos[array_position(named, job.job_id)] from job
     where job.job_id = any (ids) and job.state in ('waiting', 'ready', 'assigned')
        on conflict (incarnation, job_id, assignment) do update set is_restart = false, who = excluded.who where request.is_restart;
    requested := (select coalesce(jsonb_agg(jsonb_build_array(coalesce(job.incarnation, 0), coalesce(job.assignment, 0), job.job_id)), '[]')
                    from job where job.job_id = any (ids) and job.state in ('waiting', 'ready', 'assigned'));
    -- Not only the marked jobs, as another job may just have been enqueued to follow one.
    if ended <> '{}' and (propagate_ends(ended, 'cancelled', locks.children)).rank is not null then
        perform wake_masters(1000);
    end if;
    groups := array_remove(groups, null);
    if groups <> '{}' then
        perform free_groups(groups);
    end if;
end $$;
