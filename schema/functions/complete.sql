-- The completion: what programs call comes first, then its steps and what they use.

-- Completes jobs: one element per assignment, its lane, its job numbers as the text of a bigint array, and
-- the results, if any, as the text of an object by number. Rows that have another assignment by now are not
-- touched. Returns how many jobs it completed, whether other jobs may have become ready, and the first of those that
-- are known; its rank is text, as in next_job().
create or replace function txqueue.complete(
    its_incarnation integer, lanes smallint[], assignments bigint[], ids text[], results text[] default null,
    out total integer, out freed boolean, out freed_rank text, out freed_job bigint)
language plpgsql volatile security definer
as $$
declare
    remaining integer;
    moved     integer;
    keys      text[];
    groups    text[];
    limited   integer;
    ended     bigint[];
    followed  bigint[] := '{}';
    lane      integer;
    done      bigint[] := '{}';
    first     ready_head;
    singles   text := translate(array_to_string(ids, ' '), '{}', '');
begin
    freed := false;
    -- A trickle: jobs that were claimed one by one, in the same lane. One statement for all costs as much as one
    -- for each of two. Jobs that rotation has moved are left to the loop.
    if cardinality(lanes) > 1 and lanes[1] = all (lanes) and lanes[1] between 0 and 7
       and singles ~ '^[0-9]+( [0-9]+)*$' and cardinality(string_to_array(singles, ' ')) = cardinality(lanes) then
        case lanes[1]
            when 0 then select * into done, groups, limited, followed
                from complete_each_0(its_incarnation, assignments, string_to_array(singles, ' ')::bigint[], results);
        end case;
        followed := coalesce(followed, '{}');
        freed := limited > 0;
    end if;
    total := cardinality(done);
    for each in 1 .. case when total < cardinality(lanes) then cardinality(lanes) else 0 end loop
        continue when ids[each]::bigint[] && done;
        remaining := coalesce(cardinality(ids[each]::bigint[]), 0);
        -- Rotation may have moved a long-running job to another lane, and may move it again during this
        -- search. A job that is in none has been returned to the queue.
        lane := lanes[each];
        for search in 1 .. 16 loop
            exit when remaining = 0;
            if search > 1 or cardinality(done) > 0 or (lane between 0 and 7) is not true then
                lane := lane_of_jobs(its_incarnation, assignments[each], ids[each]::bigint[]);
            end if;
            exit when lane is null;
            case lane
                when 0 then select * into moved, keys, limited, ended
                    from complete_in_0(its_incarnation, assignments[each], ids[each]::bigint[], results[each]::jsonb);
            end case;
            remaining := remaining - moved;
            total := total + moved;
            groups := groups || keys;
            followed := followed || coalesce(ended, '{}');
            freed := freed or limited > 0;
        end loop;
    end loop;
    if followed <> '{}' or groups is not null then
        first := pass_on_ends(nullif(followed, '{}'), groups);
        freed := freed or groups is not null;
    end if;
    if first.rank is not null then
        freed := true;
        freed_rank := first.rank;
        freed_job := first.job_id;
    end if;
end $$;

-- Moves jobs, each of an assignment of its own, from one assigned lane to history, for complete(): with one
-- statement for all. results has for each job an object by number, or null. One function per lane, so that its
-- plan is kept; the plan is pinned, as in complete_in().
create or replace function txqueue.complete_each_0(
    its_incarnation integer, assignments bigint[], ids bigint[], results text[],
    out done bigint[], out groups text[], out limited integer, out followed bigint[])
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
as $$
begin
    with gone as (
        delete from job_assigned_0 as job
         using unnest(ids, assignments, results) as each (job_id, assignment, result)
         where job.job_id = each.job_id and job.assignment = each.assignment and job.incarnation = its_incarnation
        returning job.*, each.result::jsonb -> each.job_id::text as its_result
    ), put as (
        insert into job_done (job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at,
            finished_at, assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state,
            work_type, queue, "group", tenant, options, payload, error, result, followed)
        select job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at,
            clock_timestamp(), assignment, node_id, incarnation, weight, priority, least(attempt + 1, 32767), deaths, lane, 'done',
            work_type, queue, "group", tenant, options, payload, error, its_result, gone.followed
          from gone
    )
    select coalesce(array_agg(job_id), '{}'), array_agg("group") filter (where "group" is not null), count(counted),
           array_agg(job_id) filter (where gone.followed is not null)
      into done, groups, limited, followed from gone;
end $$;

-- The lane in which some of the named jobs of an assignment are; null if none is assigned to this node any more.
create or replace function txqueue.lane_of_jobs(its_incarnation integer, its_assignment bigint, ids bigint[]) returns smallint
language sql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
    select lane from job_assigned
     where job_id = any (ids) and assignment = its_assignment and incarnation = its_incarnation limit 1
$$;

-- Moves jobs of one assignment from one assigned lane to history, with the results by number. One function
-- per lane, so that its plan is kept; the plan is pinned, as the planner must not scan the table for each
-- number.
create or replace function txqueue.complete_in_0(
    its_incarnation integer, its_assignment bigint, ids bigint[], results jsonb,
    out jobs integer, out groups text[], out limited integer, out followed bigint[])
language plpgsql volatile
set enable_seqscan = off
set enable_bitmapscan = off
set plan_cache_mode = force_generic_plan
as $$
begin
    with gone as (
        delete from job_assigned_0
         where job_id = any (ids) and assignment = its_assignment and incarnation = its_incarnation
        returning *
    ), put as (
        insert into job_done (job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at,
            finished_at, assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state,
            work_type, queue, "group", tenant, options, payload, error, result, followed)
        select job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at,
            clock_timestamp(), assignment, node_id, incarnation, weight, priority, least(attempt + 1, 32767), deaths, lane, 'done',
            work_type, queue, "group", tenant, options, payload, error, results -> job_id::text, gone.followed
          from gone
    )
    select count(*), array_agg("group") filter (where "group" is not null), count(counted),
           array_agg(job_id) filter (where gone.followed is not null)
      into jobs, groups, limited, followed from gone;
end $$;

-- Does what follows when jobs are done, for complete(): updates the followers of those that have some, and makes parked
-- jobs of their groups ready. Returns the first of the jobs that may have become ready; its rank is null if there are
-- none.
create or replace function txqueue.pass_on_ends(followed bigint[], groups text[]) returns txqueue.ready_head
language plpgsql volatile
as $$
declare
    first ready_head;
begin
    if followed is not null then
        first := propagate_ends(followed, 'done');
    end if;
    if groups is not null then
        first := least(first, free_groups(groups));
    end if;
    return first;
end $$;

-- Completes one job in the caller's transaction, atomically with its writes: raises an error when its token
-- no longer holds, so that a commit in the same message does not happen. Searches the given lane first, if
-- any: with one statement, as complete() costs as much again for a single job. The progress of a job with steps, or with a cost, is not
-- null, but may be the null of JSON.
create or replace function txqueue.complete_one(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_result jsonb, its_progress jsonb default null,
    its_lane integer default null, its_cost double precision default null)
returns void
language plpgsql volatile security definer
set enable_seqscan = off
set enable_bitmapscan = off
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
            'progress', its_progress, 'cost', its_cost)))).settled <> '{}';
    end if;
    if not is_ended then
        raise exception using errcode = 'TXQ04', message = format('job %s has been assigned elsewhere since', its_job_id),
            hint = 'nothing: it runs there, this run''s writes are gone';
    end if;
end $$;

-- Which of some jobs of a node cannot end now, as another session has locked their rows, their children or the keys of
-- their groups. It waits for nothing.
create or replace function txqueue.held_jobs(its_incarnation integer, ids bigint[]) returns bigint[]
language plpgsql volatile security definer
set enable_seqscan = off
as $$
declare
    free     constant bigint[] := array(
        select job_id from job_assigned where job_id = any (ids) and incarnation = its_incarnation for update skip locked);
    children constant bigint[] := lock_children(free, free, false);
    groups   constant text[] := lock_groups(free, false);
begin
    return array(
        select job_id from job_assigned where job_id = any (ids) and incarnation = its_incarnation
        except
        select job_id from job_assigned where job_id = any (free) and ("group" is null or "group" = any (groups))
        union
        select unnest(find_held_children(free, children)));
end $$;

-- Returns jobs of a node's assignments to the queue: of the named assignments, of all others, or only the
-- jobs named by number; with spared, not jobs that were handed over by a message that may be on its way. died
-- means that the process that held them is dead; of all that a run held, it is unknown which jobs ran: from the third
-- death on, as a suspect, a job must have been noted as started. Returns how many; if that equals at_most, there may be more;
-- jobs that were running go first. It waits for no lock: a stopped process may hold a job, or its group's key, between its
-- completion and its commit, and any session may lock a row. Such jobs are skipped, and returned by rescue() or by the
-- node once they are free; such groups are recorded for free_late_groups(). Without at_most, the jobs that operators have
-- cancelled end at once.
create or replace function txqueue.release(
    its_incarnation integer, assignments bigint[], died boolean, all_but boolean default false, ids bigint[] default null,
    spare_handed boolean default false, at_most integer default null)
returns integer
language plpgsql volatile security definer
as $$
declare
    this     job;
    released integer := 0;
    groups   text[] := '{}';
    keys     smallint[];
    -- The jobs among which some are to be cancelled; null if none is.
    asked_of bigint[] := case when at_most is null and exists (select from request) then '{}' end;
begin
    for this in
        delete from job_assigned
         where incarnation = its_incarnation and job_id = any (array(
                select few.job_id from job_assigned as few
                 where few.incarnation = its_incarnation and (few.assignment = any (assignments)) <> all_but
                   and (ids is null or few.job_id = any (ids)) and (few.handed is null or not spare_handed)
                 order by few.started_at limit at_most for update skip locked))
        returning *
    loop
        if not (has_large_values(this) and fail_if_damaged(this)) then
            perform give_back(this, died and (not all_but or this.deaths < 2 or this.started_at is not null));
        end if;
        released := released + 1;
        groups := groups || this."group";
        asked_of := asked_of || this.job_id;
    end loop;
    -- A released job may have caused the parking of a job of its group that ranks before it.
    groups := array_remove(groups, null);
    if groups <> '{}' then
        keys := try_keys(array(select distinct key_of(name) from unnest(groups) as name));
        insert into late_group select distinct name from unnest(groups) as name where key_of(name) <> all (keys);
        groups := array(select name from unnest(groups) as name where key_of(name) = any (keys));
    end if;
    if groups <> '{}' then
        -- A job that returns may rank before the place where its group's jobs begin.
        delete from group_front where ctid = any (array(select ctid from group_front where "group" = any (groups) for update skip locked));
        perform free_groups(groups);
    end if;
    if asked_of <> '{}' then
        -- Before any claim can take them again.
        perform cancel_returned(its_incarnation, asked_of);
    end if;
    if released > 0 then
        perform wake_masters(released);
    end if;
    return released;
end $$;

-- Returns an assigned job to the ready partition. A job that had run for a second when its process died spends an
-- attempt; after five deaths it fails as poison.
create or replace function txqueue.give_back(this job, died boolean) returns void
language plpgsql volatile
as $$
declare
    poison constant integer := 5;
begin
    if died then
        this.deaths := least(this.deaths + 1, 32767);
        if this.started_at < clock_timestamp() - interval '1 second' then
            this.attempt := least(this.attempt + 1, 32767);
            this.progress := null;
            insert into failed_attempt (job_id, attempt, began, node_id, error)
            values (this.job_id, this.attempt, coalesce(this.started_at, this.assigned_at), this.node_id, 'the process that ran it died');
            if this.attempt > 100 then
                perform forget_attempts(this.job_id);
            end if;
        end if;
    end if;
    if this.deaths >= poison then
        this.state := 'failed';
        this.finished_at := clock_timestamp();
        this.error := format('poison: %s worker processes died while they held this job', this.deaths);
        this.fingerprint := fingerprint(this.error);
        this.failed_at := this.finished_at;
        delete from group_hold where job_id = this.job_id;
        -- Its poison explains the deaths of others, which are no longer suspects. Jobs with three deaths stay
        -- suspects: they run alone and end soon.
        update job_ready set deaths = 1
         where (lane, job_id) in (select lane, job_id from job_ready where queue = this.queue and deaths = 2
                                   limit 10000 for update skip locked);
    else
        this.state := 'ready';
        this := without_assignment(this);
    end if;
    insert into job values (this.*);
    if this.state = 'failed' and this.followed is not null then
        -- Not at once: the caller gives back other jobs, and children are locked in sorted order.
        perform note_late_ends(array[this.job_id]);
    end if;
end $$;
