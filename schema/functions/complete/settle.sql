-- Writes how jobs ended that did not just return: an array of objects with job_id, lane, assignment,
-- outcome ('done', 'retry', 'snooze', 'next', 'failed', 'cancelled'), and where they apply delay (seconds), error,
-- result, progress, and unstarted if it never ran. Only a job whose token still holds is touched. Returns the numbers of those, and whether that
-- may let others run that were held back.
create or replace function txqueue.settle(
    its_incarnation integer, outcomes jsonb, out settled bigint[], out freed boolean)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    said    record;
    this    job;
    locked  bigint[];
    done    bigint[] := '{}';
    failed  bigint[] := '{}';
    stopped bigint[] := '{}';
    groups  text[] := '{}';
begin
    settled := '{}';
    freed := false;
    for said in
        select * from jsonb_to_recordset(outcomes) as each (
            job_id bigint, assignment bigint, outcome text, delay double precision, error text, result jsonb,
            unstarted boolean, stage jsonb, progress jsonb)
    loop
        delete from job_assigned where job_id = said.job_id and assignment = said.assignment
           and incarnation = its_incarnation returning * into this;
        continue when not found;
        groups := groups || this."group";
        freed := freed or this.counted is not null;
        this.error := coalesce(said.error, this.error);
        this.fingerprint := case when said.outcome in ('retry', 'failed') then fingerprint(this.error) end;
        this.failed_at := case when this.fingerprint is not null then clock_timestamp() end;
        this.waiting_for := null;
        this.progress := coalesce(said.progress, this.progress);
        this.handed := null;
        this.counted := null;
        if said.outcome <> 'snooze' and said.unstarted is not true then
            this.attempt := least(this.attempt + 1, 32767);
        end if;
        if said.unstarted is not true and said.outcome in ('retry', 'snooze') then
            -- It came to its end, and its process lives.
            this.deaths := 0;
        end if;
        if said.outcome in ('retry', 'failed') and said.unstarted is not true then
            perform note_attempt(this);
        end if;
        if said.outcome in ('retry', 'snooze') then
            this.progress := null;
            this.state := 'waiting';
            this.waiting_for := 'time';
            this.not_before := clock_timestamp() + make_interval(secs => greatest(0, least(coalesce(said.delay, 0), 3155760000)));
            this.assignment := null;
            this.node_id := null;
            this.incarnation := null;
            this.assigned_at := null;
            this.started_at := null;
        elsif said.outcome = 'next' then
            this := advanced(this, said.stage);
            freed := true;
        else
            this.state := said.outcome::job_state;
            this.finished_at := clock_timestamp();
            this.result := said.result;
        end if;
        insert into job values (this.*);
        settled := settled || this.job_id;
        -- By what became of it: a next stage may have been refused.
        if this.followed is null then
            continue;
        elsif this.state = 'done' then
            done := done || this.job_id;
        elsif this.state = 'failed' then
            failed := failed || this.job_id;
        elsif this.state = 'cancelled' then
            stopped := stopped || this.job_id;
        end if;
    end loop;
    if done || failed || stopped <> '{}' then
        locked := lock_children(done, failed || stopped);
        freed := done <> '{}' and propagate_ends(done, 'done', locked) or freed;
        freed := failed <> '{}' and propagate_ends(failed, 'failed', locked) or freed;
        freed := stopped <> '{}' and propagate_ends(stopped, 'cancelled', locked) or freed;
    end if;
    if settled <> '{}' and has_waiting_clients() then
        perform notify_ended_jobs(array_to_string(settled, ','));
    end if;
    groups := array_remove(groups, null);
    if groups <> '{}' then
        perform free_groups(groups);
        freed := true;
    end if;
end $$;
