-- Jobs that wait for others: what programs call comes first, then its steps and what they use.

-- Notifies waiting clients of jobs that have ended, for the node that has written their ends: their numbers joined by
-- commas, or an empty text for any job. A transaction of its own, as one that commits with a notification makes others
-- that do so wait until it is on disk; this one writes nothing, and waits for no disk. Returns for how many more
-- seconds clients have asked for such notifications.
create or replace function txqueue.notify_ends(ids text) returns double precision
language sql volatile security definer
as $$
    select notify_ended_jobs(ids) where has_waiting_clients();
    select greatest(0, pg_sequence_last_value('awaited') - extract(epoch from clock_timestamp()))::double precision
$$;

-- Notifies waiting clients of ended jobs: their numbers joined by commas; an empty text if there are too
-- many.
create or replace function txqueue.notify_ended_jobs(ids text) returns void
language sql volatile  -- inlined
as $$ select pg_notify('txqueue_ended', case when length(ids) <= 4000 then ids else '' end) where txqueue.may_notify() $$;

-- Whether a client is waiting for jobs to end. Read without a scan, which would cost as much as a statement.
create or replace function txqueue.has_waiting_clients() returns boolean
language sql volatile  -- inlined
as $$ select coalesce(pg_sequence_last_value('txqueue.awaited'), 0) > extract(epoch from clock_timestamp()) $$;

-- Makes nodes notify the ends of jobs on the channel txqueue_ended for some seconds; a waiting client renews
-- this in time. Limited in time, because NOTIFY takes a lock of the whole server at commit.
create or replace function txqueue.request_end_notices(seconds integer default 10) returns void
language sql volatile security definer
as $$
    select setval('awaited', least(greatest(seconds, 1), 60) + ceil(extract(epoch from clock_timestamp()))::bigint)
$$;

-- Whether a job goes on only after the end of another one: as a follower in a chain of calls, `after` and unique keys, or
-- as that job itself. Looks at a thousand jobs at most. Only a live job waits: a failed one keeps its steps.
create or replace function txqueue.awaits_end(its_job_id bigint, of_job bigint) returns boolean
language sql volatile
set enable_seqscan = off
as $$
    with recursive awaited (job_id) as (
        select its_job_id
        union
        select next.job_id
          from awaited cross join lateral (
               select parent as job_id from job_parent where child = awaited.job_id and ended is null
               union all
               select child from job_step
                where job_step.job_id = awaited.job_id and child is not null and ended_at is null and is_live_job(awaited.job_id)
               union all
               select holder.job_id from unique_job as holder where next_id = awaited.job_id) as next
    )
    select exists (select from (select job_id from awaited limit 1000) as few where job_id = of_job)
$$;

-- Enqueues a job that waits until others have ended: all as done, or in any way. A job that can never run is
-- enqueued as cancelled. Returns its number.
create or replace function txqueue.enqueue_child(this job, after bigint[], its_any_end boolean) returns bigint
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    parents bigint[] := array(select distinct id from unnest(after) as id order by id);
    others  bigint[];
    missing bigint;
begin
    if cardinality(parents) > 1000000 or array_position(parents, null) is not null then
        perform refuse('after has a null or more than a million jobs', 'pass the numbers of the jobs to wait for');
    end if;
    others := link_parents(this.job_id, parents, its_any_end);
    select id into missing from unnest(others) as id
     where not exists (select from job_parent where child = this.job_id and parent = id) limit 1;
    if found then
        perform refuse(format('there is no job %s to wait for', missing), 'enqueue it first, and commit that or use the same transaction');
    end if;
    -- For its history and for retries; of more than a thousand only the number, and a retry needs all to be done.
    this.options := coalesce(this.options, '{}')
        || jsonb_build_object('after', case when cardinality(parents) <= 1000 then to_jsonb(parents) else to_jsonb(cardinality(parents)) end)
        || case when its_any_end then '{"after_any_end": true}' else '{}' end::jsonb;
    this := hold_for_parents(this, others);
    insert into job values (this.*);
    return this.job_id;
end $$;

-- Stores the parents of a job, and the outcomes of ended ones; returns the parents that are not of this
-- transaction, as those may end meanwhile: see note_late_ends(). An archived parent has ended; one that does not exist gets no row.
--
-- Jobs of this transaction are marked as followed. The rows of others must not stay locked during an
-- application's transaction: see propagate_late_ends().
create or replace function txqueue.link_parents(child bigint, parents bigint[], its_any_end boolean) returns bigint[]
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
as $$
#variable_conflict use_column
declare
    own    bigint[];
    others bigint[];
begin
    with marked as (
        update job set followed = 1
         where job_id = any (parents) and state in ('waiting', 'ready', 'assigned') and xmin = pg_current_xact_id()::xid
        returning job_id
    )
    select coalesce(array_agg(job_id), '{}') into own from marked;
    others := array(select id from unnest(parents) as id where id <> all (own));
    insert into job_parent (child, parent, any_end) select link_parents.child, id, its_any_end from unnest(own) as id;
    if others <> '{}' then
        -- Most parents have not ended; only for the rest all days of history are searched.
        insert into job_parent (child, parent, any_end)
        select link_parents.child, job_id, its_any_end from job
         where job_id = any (others) and state in ('waiting', 'ready', 'assigned');
        if exists (select from unnest(others) as id
                    where not exists (select from job_parent where child = link_parents.child and parent = id)) then
            insert into job_parent (child, parent, any_end, ended)
            select link_parents.child, job_id, its_any_end, case when state in ('done', 'failed', 'cancelled') then state::text end
              from job where job_id = any (others)
                on conflict do nothing;
            insert into job_parent (child, parent, any_end, ended)
            select link_parents.child, id, its_any_end, past.state::text
              from unnest(others) as id, lateral (select its.state from find_archived(id) as its limit 1) as past
             where not exists (select from job_parent where child = link_parents.child and parent = id);
        end if;
    end if;
    return others;
end $$;

-- Returns a job in its state with the parents that link_parents() has stored: cancelled if one can never be
-- done, waiting while one has not ended, else unchanged, with their outcomes. Deletes its rows of job_parent
-- unless it waits.
create or replace function txqueue.hold_for_parents(this job, others bigint[]) returns job
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    failed record;
begin
    select parent, ended into failed from job_parent
     where child = this.job_id and ended in ('failed', 'cancelled') and not any_end order by parent limit 1;
    if found then
        this := cancel_orphan(this, failed.parent, failed.ended);
    elsif exists (select from job_parent where child = this.job_id and ended is null) then
        this.state := 'waiting';
        this.waiting_for := 'parents';
        this.followed := 0;
        perform note_late_ends(array(
            select parent from job_parent where child = this.job_id and ended is distinct from 'done' and parent = any (others)));
        return this;
    else
        this := add_parent_outcomes(this);
    end if;
    delete from job_parent where child = this.job_id;
    return this;
end $$;

-- Returns a job as cancelled because one of its parents was not done.
create or replace function txqueue.cancel_orphan(this job, parent bigint, its_end text) returns job
language plpgsql volatile
as $$
begin
    this.state := 'cancelled';
    this.waiting_for := null;
    this.finished_at := clock_timestamp();
    this.error := format('cancelled: parent %s %s', parent, case its_end when 'failed' then 'failed' else 'was cancelled' end);
    return this;
end $$;

-- Records jobs for propagate_late_ends().
create or replace function txqueue.note_late_ends(ids bigint[]) returns void
language plpgsql volatile
as $$
begin
    if ids <> '{}' then
        insert into late_end select distinct id from unnest(ids) as id;
        perform setval('has_late_ends', 1);
    end if;
end $$;

-- Returns a job with the outcomes of its parents among its options, for its worker.
create or replace function txqueue.add_parent_outcomes(this job) returns job
language plpgsql volatile
set enable_seqscan = off
as $$
begin
    if this.options ? 'steps' then
        -- Its parents are the children of its calls: what it waited for before its first run stays.
        return this;
    end if;
    this.options := coalesce(this.options, '{}') || jsonb_build_object('parents', (
        select jsonb_build_object(
                   'done', count(*) filter (where ended = 'done'), 'failed', count(*) filter (where ended = 'failed'),
                   'cancelled', count(*) filter (where ended = 'cancelled'))
          from job_parent where child = this.job_id));
    return this;
end $$;

-- Returns a job from reset_for_retry() in its state with its former parents: it waits for those that are
-- retried too, and is cancelled if one of them can never be done. A parent that history no longer has counts
-- as done.
create or replace function txqueue.hold_for_parents_again(this job) returns job
language plpgsql volatile
as $$
declare
    parents bigint[];
begin
    if coalesce(jsonb_typeof(this.options -> 'after'), 'null') <> 'array' then
        -- Of too many parents only the number is stored; if the job never ran, a parent was not done, or an
        -- operator cancelled the job.
        if this.options ? 'after' and not this.options ? 'parents' then
            this.state := 'cancelled';
        end if;
        return this;
    end if;
    parents := array(select value::bigint from jsonb_array_elements_text(this.options -> 'after') as value where value ~ '^[0-9]{1,18}$');
    return hold_for_parents(this, link_parents(this.job_id, parents, coalesce(this.options -> 'after_any_end' = 'true', false)));
end $$;

-- Processes the recorded late ends: updates the followers of ended jobs, and marks jobs that have not ended
-- as followed. A job to which a signal was sent is recorded too, and goes on if it waits for that. Records locked by an open transaction stay for the next call, which may be many times a
-- second: it costs little and leaves no dead row. Returns whether other jobs may have become ready.
create or replace function txqueue.propagate_late_ends() returns boolean
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
as $$
declare
    places  tid[];
    late    bigint[];
    resumed bigint[] := '{}';
    held    bigint[] := '{}';
    freed   boolean := false;
begin
    select array_agg(ctid), array_agg(job_id) into places, late
      from (select ctid, job_id from late_end limit 10000 for update skip locked) as noted;
    if late is null then
        -- A session that records a late end has set the flag in its open transaction, and does not set it
        -- again at the commit.
        if not is_late_end_in_use() then
            perform setval('has_late_ends', 0);
            -- Another session may have set the flag, and even committed, between the check and this.
            if is_late_end_in_use() or exists (select from late_end) then
                perform setval('has_late_ends', 1);
            end if;
        end if;
        return false;
    end if;
    if has_signals() then
        -- First, as most of those that wait for a signal need nothing of what follows.
        resumed := resume_signalled(late);
    end if;
    late := array(select unnest(late) except select unnest(resumed));
    if late <> '{}' then
        select * into held, freed from propagate_noted(late);
    end if;
    delete from late_end where ctid = any (places) and job_id <> all (held);
    if freed or resumed <> '{}' then
        perform wake_masters(1000);
        return true;
    end if;
    return false;
end $$;

-- Whether another open transaction has recorded late ends, or is processing them.
create or replace function txqueue.is_late_end_in_use() returns boolean
language sql volatile
as $$
    select exists (select from pg_locks
                    where relation = 'late_end'::regclass and mode in ('RowExclusiveLock', 'RowShareLock')
                      and pid is distinct from pg_backend_pid())
$$;

-- Processes records of late ends for propagate_late_ends(). Returns the jobs whose records must stay, as a transaction
-- holds what they need, and whether other jobs may have become ready.
create or replace function txqueue.propagate_noted(late bigint[], out held bigint[], out freed boolean)
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
as $$
declare
    marked  bigint[];
    resumed bigint[] := '{}';
    locked  bigint[];
    these   bigint[];
    ended   text;
begin
    freed := false;
    -- A claim or a heartbeat calls this, with locks for which others wait.
    locked := lock_children(null, late, may_wait => false);
    held := find_held_keys(late) || find_held_children(late, locked);
    late := array(select unnest(late) except select unnest(held));
    if late = '{}' then
        return;
    end if;
    marked := array(select job_id from job where job_id = any (late) and state in ('waiting', 'ready', 'assigned')
                       for update skip locked);
    late := array(select unnest(late) except select unnest(marked));
    if has_signals() then
        -- Those that have begun to wait since propagate_late_ends() looked.
        resumed := resume_signalled(marked);
        freed := resumed <> '{}';
    end if;
    update job set followed = mark_followed(job_id, followed)
     where job_id = any (array(select unnest(marked) except select unnest(resumed)))
       and state in ('waiting', 'ready', 'assigned') and followed is distinct from mark_followed(job_id, followed);
    perform wait_for_new_ends(marked, locked);
    held := held || array(select job_id from job where job_id = any (late) and state in ('waiting', 'ready', 'assigned'));
    late := array(select unnest(late) except select unnest(held));
    foreach ended in array array['done', 'failed', 'cancelled'] loop
        these := array(select job_id from job where job_id = any (late) and state = ended::job_state);
        if these <> '{}' then
            if ended = 'done' then
                -- Their children read now whether there is a result: note_late_result() stores none later.
                update job_done set followed = 1
                 where job_id in (
                    select job_id from job_done as done
                     where job_id = any (these) and result is null and followed is distinct from 1
                       and exists (select from job_parent where parent = done.job_id)
                       for update skip locked);
            end if;
            freed := (propagate_ends(these, ended, locked)).rank is not null or freed;
        end if;
    end loop;
end $$;

-- Locks the children of some jobs in sorted order, and returns their numbers: two parents of one child that
-- end at the same time must see each other. If the parents are not done, it also locks the children's own
-- children, and the parents themselves if they wait, as these end too. Children enqueued later are left to
-- propagate_late_ends(); a second search in the same transaction would lock out of order. A job that waits for a
-- moment beside its calls is a child, too. A caller that holds other locks may not wait, and gets only the children
-- that are free.
create or replace function txqueue.lock_children(done bigint[], not_done bigint[], may_wait boolean default true) returns bigint[]
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    found bigint[];
begin
    if not exists (select from job_parent where parent = any (done || not_done))
       and not exists (select from job_parent where child = any (not_done)) then
        return '{}';
    end if;
    found := array(
        with recursive heir (job_id) as (
            select unnest(not_done)
            union
            select further.child from heir join job_parent as further on further.parent = heir.job_id
        )
        select job_id from heir
        union
        select child from job_parent where parent = any (done));
    if may_wait then
        return array(
            select job_id from job_waiting where job_id = any (found)
           and (waiting_for = 'parents' or waiting_for = 'time' and exists (select from job_parent where child = job_id))
         order by job_id for update);
    end if;
    return array(
        select job_id from job_waiting where job_id = any (found)
           and (waiting_for = 'parents' or waiting_for = 'time' and exists (select from job_parent where child = job_id))
         order by job_id for update skip locked);
end $$;

-- Which of some jobs have children, or children of those, that wait for parents and that the caller could not
-- lock.
create or replace function txqueue.find_held_children(ids bigint[], locked bigint[]) returns bigint[]
language plpgsql volatile
set enable_seqscan = off
set plan_cache_mode = force_custom_plan
as $$
begin
    return array(
        with recursive heir (first, job_id) as (
            select id, id from unnest(ids) as id
            union
            select heir.first, further.child from heir join job_parent as further on further.parent = heir.job_id
        )
        select distinct heir.first from heir
         where heir.job_id <> all (locked)
           and exists (select from job_waiting as held where held.job_id = heir.job_id and held.waiting_for in ('parents', 'time'))
           and exists (select from job_parent where child = heir.job_id));
end $$;

-- Has children, locked by the caller, wait for the new ends of jobs that had ended and are open again. Marks
-- those as followed: if a job had ended before its child was enqueued, nothing has marked it yet.
create or replace function txqueue.wait_for_new_ends(reopened bigint[], children bigint[]) returns void
language plpgsql volatile
set enable_seqscan = off
as $$
declare
    followed_ids bigint[];
begin
    with opened as (
        update job_parent set ended = null
         where parent = any (reopened) and child = any (children) and ended is not null returning parent
    )
    select array_agg(distinct parent) into followed_ids from opened;
    update job set followed = 1
     where job_id = any (followed_ids) and state in ('waiting', 'ready', 'assigned') and followed is distinct from 1;
end $$;

-- What a job of which a late end was recorded is marked with: 1 if other jobs follow it, else 0, as for a signal.
create or replace function txqueue.mark_followed(its_job_id bigint, followed smallint) returns smallint
language sql stable
as $$ select case when exists (select from job_parent where parent = its_job_id) then 1 else coalesce(followed, 0) end::smallint $$;

-- Updates the followers of jobs that end with one outcome (done, failed or cancelled), in the transaction
-- that ends them. Called only for jobs that are marked as followed, and those that end because of them.
-- Returns the first of the other jobs that may have become ready; its rank is null if there are none. A caller that calls it more than once in a transaction
-- must lock the children first by lock_children(), and pass them.
create or replace function txqueue.propagate_ends(ids bigint[], ended text, locked bigint[] default null)
returns txqueue.ready_head
language plpgsql volatile
as $$
declare
    freed ready_head;
    heirs record;
begin
    if locked is null then
        locked := lock_children(case ended when 'done' then ids end, case when ended <> 'done' then ids end);
    end if;
    loop
        -- A job that is not done may be retried, and then takes those that were sent before.
        if ended = 'done' and has_signals() then
            delete from job_signal where job_id = any (ids);
        end if;
        perform start_cooldowns(ids);
        freed := least(freed, pass_on_unique_keys(ids));
        heirs := unblock_children(ids, ended, locked);
        freed := least(freed, heirs.freed);
        ids := heirs.cancelled;
        ended := 'cancelled';
        exit when ids = '{}';
    end loop;
    return freed;
end $$;

-- Makes children ready whose last parents have ended; cancels children of parents that are not done. Changes
-- only children that the caller has locked by lock_children(). Returns the first of those that may have become ready
-- (its rank is null if there are none), and which were cancelled.
create or replace function txqueue.unblock_children(
    ids bigint[], its_end text, locked bigint[], out freed txqueue.ready_head, out cancelled bigint[])
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set plan_cache_mode = force_custom_plan
as $$
declare
    children bigint[];
    this     job;
    failed   record;
begin
    cancelled := '{}';
    delete from job_parent where child = any (ids);
    with told as (
        -- Found by parent, because by child all its parents would be read.
        update job_parent set ended = its_end
         where parent = any (ids) and (child = any (locked)) is true and ended is null returning child
    )
    select array_agg(distinct child) into children from told;
    if children is null then
        return;
    end if;
    if its_end <> 'done' then
        for failed in
            select child, min(parent) as parent from job_parent
             where parent = any (ids) and child = any (children) and not any_end group by child
        loop
            delete from job_waiting where job_id = failed.child and waiting_for = 'parents' returning * into this;
            continue when not found;
            continue when has_large_values(this) and fail_if_damaged(this);
            this := cancel_orphan(this, failed.parent, its_end);
            insert into job values (this.*);
            cancelled := cancelled || this.job_id;
        end loop;
    end if;
    for this in
        delete from job_waiting as waiting
         where waiting.job_id = any (children) and waiting.waiting_for in ('parents', 'time') and (
            -- The last ones first, as earlier ones have left dead entries in the index.
            select link.parent from job_parent as link where link.child = waiting.job_id and link.ended is null
             order by link.parent desc limit 1) is null
        returning *
    loop
        continue when has_large_values(this) and fail_if_damaged(this);
        if this.options ? 'steps' then
            -- Beside its calls it may wait for a moment.
            this.not_before := least(this.not_before, clock_timestamp());
        end if;
        this := make_eligible(add_parent_outcomes(this));
        insert into job values (this.*);
        freed := least(freed, row(null, null, this.rank, this.job_id, null, null)::ready_head);
    end loop;
    -- First the children that no longer wait, as the others may have a million parents, which would all be
    -- read.
    children := array(select id from unnest(children) as id
                       where not exists (select from job_waiting where job_id = id and waiting_for in ('parents', 'time')));
    delete from job_parent where child = any (children);
end $$;
