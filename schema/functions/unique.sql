-- Unique keys: what programs call comes first, then its steps and what they use.

-- Ends pending jobs similar to a running job together with it: those of its work type, queue, group and
-- tenant without followers that no version of their type failed to read, optionally also those due later. They
-- end as done with this transaction, the oldest first, up to a limit; returns their numbers and payloads. Returns
-- none if the running job's token no longer holds, as its transaction cannot commit then.
--
-- It waits for no lock and holds no key of a group: rows locked by other sessions are skipped, and sessions
-- that make jobs of the group ready skip the rows locked here, until the end of this job wakes the group.
create or replace function txqueue.coalesce_into(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, at_most integer, later boolean default false)
returns table (taken_id bigint, taken_type text, taken_payload text)
language plpgsql volatile security definer
set enable_seqscan = off
set enable_bitmapscan = off
as $$
declare
    most constant integer := 10000;
    holder  job;
    this    job;
    ready   bigint[] := '{}';
    waiting bigint[] := '{}';
begin
    select * into holder from job_assigned
     where job_id = its_job_id and assignment = its_assignment and incarnation = its_incarnation;
    if not found then
        return;
    end if;
    at_most := least(at_most, most);
    if holder."group" is not null then
        waiting := array(
            select job_id from job_waiting
             where "group" = holder."group" and (waiting_for = 'group' or later and waiting_for in ('time', 'rate'))
               and work_type = holder.work_type and queue = holder.queue and followed is null
               and (options ?| array['unread', 'steps']) is not true
               and tenant is not distinct from holder.tenant
             order by rank, job_id limit at_most for update skip locked);
        ready := array(
            select job_id from job_ready
             where "group" = holder."group" and work_type = holder.work_type and queue = holder.queue and followed is null
               and (options ?| array['unread', 'steps']) is not true
               and tenant is not distinct from holder.tenant
             order by rank, job_id limit at_most - cardinality(waiting) for update skip locked);
    else
        if holder.tenant is null then
            ready := array(
                select job_id from job_ready
                 where queue = holder.queue and tenant is null
                   and work_type = holder.work_type and "group" is null and followed is null
                   and (options ?| array['unread', 'steps']) is not true
                 order by rank, job_id limit at_most for update skip locked);
        else
            ready := array(
                select job_id from job_ready
                 where queue = holder.queue and tenant = holder.tenant
                   and work_type = holder.work_type and "group" is null and followed is null
                   and (options ?| array['unread', 'steps']) is not true
                 order by rank, job_id limit at_most for update skip locked);
        end if;
        if later then
            waiting := array(
                select job_id from job_waiting
                 where waiting_for in ('time', 'rate') and queue = holder.queue and work_type = holder.work_type
                   and tenant is not distinct from holder.tenant and "group" is null and followed is null
                   and (options ?| array['unread', 'steps']) is not true
                 order by not_before limit at_most - cardinality(ready) for update skip locked);
        end if;
    end if;
    for this in
        with from_waiting as (
            delete from job_waiting where job_id = any (waiting) returning *
        ), from_ready as (
            delete from job_ready where job_id = any (ready) returning *
        )
        select * from (select * from from_waiting union all select * from from_ready) as gone order by rank, job_id
    loop
        this.state := 'done';
        this.waiting_for := null;
        this.error := 'coalesced into job ' || its_job_id;
        this.assigned_at := holder.assigned_at;
        this.finished_at := clock_timestamp();
        this.assignment := its_assignment;
        this.node_id := holder.node_id;
        this.incarnation := its_incarnation;
        insert into job values (this.*);
        taken_id := this.job_id;
        taken_type := this.work_type;
        taken_payload := this.payload::text;
        return next;
    end loop;
end $$;

-- Enqueues a job that has a unique key or waits for others. Returns its number, or that of the job that holds
-- its key.
create or replace function txqueue.enqueue_related(
    this job, key text, mode text, after bigint[], after_any_end boolean) returns bigint
language plpgsql volatile
as $$
begin
    if key is not null and after is not null then
        perform refuse('a job with a unique key cannot wait for others',
                       'leave out unique, or enqueue it from the last of the others');
    elsif key is null and mode is not null then
        perform refuse_keyless();
    elsif after is null and after_any_end is not null then
        perform refuse('after_any_end without after', 'pass the jobs as after');
    elsif length(key) not between 1 and 1000 then
        perform refuse('a unique key must have 1 to 1000 characters', 'pass a shorter key, or null for none');
    elsif mode not in ('keep', 'replace', 'again', 'reject', 'once') then
        perform refuse('there is no such unique_mode', 'use keep, replace, again, reject or once');
    end if;
    if after is not null then
        return enqueue_child(this, after, coalesce(after_any_end, false));
    end if;
    if mode = 'once' or this.options ?| array['as_of', 'once_for'] then
        return enqueue_remembered(this, key, coalesce(mode, 'keep'));
    end if;
    return enqueue_unique(this, key, coalesce(mode, 'keep'));
end $$;

-- Enqueues a job with a unique key that is remembered after its end, unless the remembered key shows that it
-- is not needed:
--   with once             if the key was ever enqueued so, or not longer ago than the option once_for, in seconds
-- with the option as_of if the key was enqueued as of that moment or a later one Returns the number of the
-- enqueued or holding job, or of the remembered one if it is not needed.
create or replace function txqueue.enqueue_remembered(this job, its_key text, mode text) returns bigint
language plpgsql volatile
as $$
declare
    moment   timestamptz;
    patience interval;
    its_id   bigint;
begin
    if this.options ? 'as_of' then
        if mode not in ('replace', 'again') then
            perform refuse('as_of says which of two jobs is newer', 'pass replace or again as unique_mode, or leave as_of out');
        end if;
        if is_input(this.options ->> 'as_of', 'timestamptz'::regtype) then
            moment := (this.options ->> 'as_of')::timestamptz;
        end if;
        if moment is null or not isfinite(moment) then
            perform refuse('as_of is no moment', 'pass one in ISO 8601 with an offset, as text');
        end if;
    end if;
    if this.options ? 'once_for' then
        if mode <> 'once' then
            perform refuse('once_for is for unique_mode once', 'pass that, or leave once_for out');
        elsif jsonb_typeof(this.options -> 'once_for') <> 'number' or (this.options ->> 'once_for')::numeric not between 0 and 315360000 then
            perform refuse('once_for is not within 0 and ten years of seconds', 'give seconds as a number, or leave it out to remember without end');
        end if;
        patience := make_interval(secs => (this.options ->> 'once_for')::double precision);
    end if;
    insert into seen_key as seen (work_type, key, job_id, as_of) values (this.work_type, its_key, this.job_id, moment)
    on conflict (work_type, key) do update
       set job_id = excluded.job_id, as_of = coalesce(excluded.as_of, seen.as_of), at = excluded.at
     where case mode when 'once' then seen.at < excluded.at - patience else excluded.as_of > coalesce(seen.as_of, '-infinity') end;
    if not found then
        return (select job_id from seen_key where work_type = this.work_type and key = its_key);
    end if;
    its_id := enqueue_unique(this, its_key, case mode when 'once' then 'keep' else mode end);
    if its_id <> this.job_id then
        update seen_key set job_id = its_id where work_type = this.work_type and key = its_key;
    end if;
    return its_id;
end $$;

-- Enqueues a job with a unique key unless another unended job of its work type holds the key. In that case
-- the mode decides:
-- keep     nothing: the other stands for both
--   reject   an error
-- replace  a pending job gets the new one's data and start time
--   again    a pending one takes all that the new one has, but keeps its place
-- If the other runs, or may be taken by its group at any moment, replace and again have the new one follow it, and that is
-- the pending one from then on. Returns the number of the pending one; with keep that of the other.
--
-- A follow-up of the running job that ends with this transaction, which txqueue.ending_job names, follows it with any
-- mode: the job holds its key only until the commit.
--
-- With replace and again the key is locked until the end of the transaction, and other enqueues with these
-- modes wait, as for any unique index. Completions do not wait: see pass_on_unique_keys().
create or replace function txqueue.enqueue_unique(this job, its_key text, mode text) returns bigint
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    held  unique_job;
    other job;
    ending constant text := current_setting('txqueue.ending_job', true);
begin
    this.options := coalesce(this.options, '{}') || jsonb_build_object('unique', its_key);
    this.followed := 0;
    loop
        insert into unique_job (work_type, key, job_id) values (this.work_type, its_key, this.job_id) on conflict do nothing;
        if found then
            insert into job values (this.*);
            return this.job_id;
        end if;
        if mode in ('keep', 'reject') then
            select * into held from unique_job where work_type = this.work_type and key = its_key;
            select * into other from job where job_id = held.job_id and state in ('waiting', 'ready', 'assigned');
            if found and other.state = 'assigned' and held.next_id is null and held.job_id::text = ending then
                mode := 'again';
            elsif found and mode = 'reject' then
                raise exception using errcode = 'TXQ03',
                    message = format('job %s of %s has the same unique key', held.job_id, this.work_type),
                    hint = 'enqueue it when that one has ended, or with another unique_mode';
            elsif found then
                return coalesce(held.next_id, held.job_id);
            end if;
        end if;
        select * into held from unique_job where work_type = this.work_type and key = its_key for update;
        continue when not found;
        select * into other from job
         where job_id = coalesce(held.next_id, held.job_id) and state in ('waiting', 'ready', 'assigned');
        if not found then
            if current_setting('transaction_isolation') <> 'read committed' then
                -- The job may also have moved to where this transaction cannot see it.
                raise exception using errcode = 'serialization_failure',
                    message = format('this transaction is too old to see the state of job %s', coalesce(held.next_id, held.job_id)),
                    hint = 'try it again, or enqueue in a read committed one';
            end if;
            -- The job has ended, but its completion could not get the key.
            update unique_job set job_id = case when held.next_id is null then this.job_id else held.job_id end, next_id = null
             where work_type = this.work_type and key = its_key;
            continue when held.next_id is not null;
            insert into job values (this.*);
            return this.job_id;
        end if;
        continue when mode in ('keep', 'reject');
        if not can_change_payload(other) then
            this.state := 'waiting';
            this.waiting_for := 'unique';
            insert into job values (this.*);
            update unique_job set next_id = this.job_id where work_type = this.work_type and key = its_key;
            return this.job_id;
        end if;
        perform set_config('queue_rows.are_moved', 'on', true);
        delete from job where job_id = other.job_id and state in ('waiting', 'ready') returning * into other;
        if found then
            other := replace_pending(other, this, mode);
            insert into job values (other.*);
            return other.job_id;
        end if;
    end loop;
end $$;

-- Whether a long transaction may change a job's payload without making other sessions wait for its row.
-- Claims skip locked rows, but the completion of a job of a group waits for the group's next job.
create or replace function txqueue.can_change_payload(this job) returns boolean
language sql immutable
as $$
    select (this.options ? 'steps') is not true and case this.state
        when 'ready' then this."group" is null
        when 'waiting' then this.waiting_for in ('time', 'type', 'unique', 'version')
        else false end
$$;

-- Returns a pending job with the data of a newer one with its unique key, under the old number and with all
-- attempts, as it has tried nothing with the new data.
create or replace function txqueue.replace_pending(old job, new job, mode text) returns job
language plpgsql volatile
as $$
begin
    new.job_id := old.job_id;
    new.enqueued_at := old.enqueued_at;
    new.deaths := old.deaths;
    new.error := old.error;
    if mode = 'again' then
        new.rank := least(new.rank, old.rank);
        -- A job that has failed still waits for its retry.
        if new.not_before > old.not_before or old.attempt > 0 or old.failed_at is not null then
            new.not_before := old.not_before;
            new.fingerprint := old.fingerprint;
            new.failed_at := old.failed_at;
        end if;
    end if;
    if old.waiting_for = 'unique' then
        new.state := 'waiting';
        new.waiting_for := 'unique';
        return new;
    end if;
    return make_eligible(new);
end $$;

-- Which of some jobs have, or wait for, a unique key that an open transaction has locked, or belong to a
-- schedule that one has locked. Locks the keys of the others after their schedules, in the order of
-- propagate_ends().
create or replace function txqueue.find_held_keys(ids bigint[]) returns bigint[]
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
as $$
declare
    open bigint[];
    free jsonb;
begin
    open := array(select last_job from schedule where kind = 'cooldown' and last_job = any (ids)
                   order by schedule_id for update skip locked);
    free := (select coalesce(jsonb_object_agg(job_id, key), '{}') from (
        select job_id, key from unique_job where job_id = any (ids) or next_id = any (ids) for update skip locked) as mine);
    return array(
        select id from unique_job as other, lateral (values (other.job_id), (other.next_id)) as each (id)
         where (other.job_id = any (ids) or other.next_id = any (ids)) and id = any (ids)
           and not free ? other.job_id::text
        union
        select last_job from schedule where kind = 'cooldown' and last_job = any (ids) and last_job <> all (open));
end $$;

-- Makes the next job of a unique key ready when its holder ends, or frees the key. A key locked by an open
-- transaction is left for propagate_late_ends(), as no completion waits for an application. Returns the first of the
-- jobs that may have become ready; its rank is null if there are none.
create or replace function txqueue.pass_on_unique_keys(ids bigint[]) returns txqueue.ready_head
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    held  unique_job;
    next  job;
    seen  bigint[] := '{}';
    freed ready_head;
begin
    for held in
        select * from unique_job where job_id = any (ids) or next_id = any (ids)
         order by work_type, key for update skip locked
    loop
        seen := seen || held.job_id || held.next_id;
        next := null;
        if held.job_id = any (ids) then
            delete from job_waiting where job_id = held.next_id and waiting_for = 'unique' returning * into next;
            if has_large_values(next) and fail_if_damaged(next) then
                next := null;
            end if;
        end if;
        if next.job_id is not null then
            next := make_eligible(next);
            insert into job values (next.*);
            update unique_job set job_id = next.job_id, next_id = null
             where work_type = held.work_type and key = held.key;
            freed := least(freed, row(null, null, next.rank, next.job_id, null, null)::ready_head);
        elsif held.job_id = any (ids) then
            delete from unique_job where work_type = held.work_type and key = held.key;
        else
            update unique_job set next_id = null where work_type = held.work_type and key = held.key;
        end if;
    end loop;
    perform note_late_ends(array(
        select id from unique_job as other, lateral (values (other.job_id), (other.next_id)) as each (id)
         where (other.job_id = any (ids) or other.next_id = any (ids)) and id = any (ids) and id <> all (array_remove(seen, null))));
    return freed;
end $$;

-- Gives jobs that wait for a retry the data of those that follow them by their unique keys, as if these were enqueued
-- now: a stale payload is not tried again. What follows still runs afterwards, and keeps its own start time. One that
-- has the data already keeps its attempts. Returns whether one has become ready.
create or replace function txqueue.take_newest(ids bigint[], out is_ready boolean)
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    newest job;
    this   job;
begin
    is_ready := false;
    for newest in
        select job.* from unique_job join job on job.job_id = unique_job.next_id and job.state = 'waiting'
         where unique_job.job_id = any (ids) and job.not_before <= clock_timestamp()
    loop
        continue when has_large_values(newest) and find_damage(newest.options, newest.payload) is not null;
        delete from job_waiting
         where job_id = (select unique_job.job_id from unique_job where next_id = newest.job_id and unique_job.job_id = any (ids))
           and payload <> newest.payload and can_change_payload(job_waiting)
        returning * into this;
        if found then
            newest.waiting_for := null;
            this := replace_pending(this, newest, 'again');
            insert into job values (this.*);
            is_ready := is_ready or this.state = 'ready';
        end if;
    end loop;
end $$;
