-- The deploy guard: what programs call comes first, then its steps and what they use.

-- Holds work types on versions of the application that fail as no older version has, for a node that runs these versions;
-- takes held types from what the node serves. A kind of failure holds a type from so many failures on, if they are so
-- large a share of the runs, within a day of the version's first; until an older version fails so a quarter as often, or an operator
-- releases the type. Returns all held types.
create or replace function txqueue.guard_versions(
    its_incarnation integer, applications text[], types text[], failures integer, share double precision)
returns table (work_type text, application text, error text, failed bigint, runs bigint)
language plpgsql volatile security definer
set enable_seqscan = off
as $$
#variable_conflict use_column
declare
    this   version_failure;
    counts record;
begin
    insert into version_failure (application, work_type, fingerprint)
    select version, type, '' from unnest(applications) as version, unnest(types) as type
     where not exists (select from version_failure as known
                        where known.application = version and known.work_type = type and known.fingerprint = '')
     order by 1, 2 on conflict do nothing;
    update version_failure as held set released_at = clock_timestamp()
     where is_held(held) and not is_new_failure(held, held.failed, held.runs);
    for this in
        select each.* from version_failure as each
         where each.application = any (applications) and each.work_type = any (types)
           and each.fingerprint <> '' and each.held_at is null
           -- Later, the version is no longer new.
           and first_run(each.application, each.work_type) >= clock_timestamp() - interval '1 day'
    loop
        counts := count_runs(this, failures, null);
        if counts.failed >= failures and counts.failed >= share * counts.runs
           and is_new_failure(this, counts.failed, counts.runs) then
            update version_failure as each
               set held_at = clock_timestamp(), failed = counts.failed, runs = counts.runs, error = counts.error
             where (each.application, each.work_type, each.fingerprint) = (this.application, this.work_type, this.fingerprint)
               and each.held_at is null;
        end if;
    end loop;
    update node_info as node set work_types = served.types
      from (select array(select type from unnest(types) as type where not exists (
                select from version_failure as held
                 where held.application = any (applications) and held.work_type = type and is_held(held)))) as served (types)
     where node.incarnation = its_incarnation and node.work_types <> served.types;
    return query select held.work_type, held.application, held.error, held.failed, held.runs
                   from version_failure as held where is_held(held) order by 1, 2, held.held_at;
end $$;

-- Returns jobs to the queue that held types have failed by the kinds that hold them, for good or until a retry, with
-- the attempts that these have spent: up to a number of jobs for each kind. Not while a node runs the version without the
-- guard, as it would fail them again at once. Returns how many.
create or replace function txqueue.return_held(at_most integer default 1000) returns integer
language plpgsql volatile security definer
set enable_seqscan = off
set lock_timeout = '1s'
as $$
declare
    held     version_failure;
    attempts jsonb;
    reopened bigint[];
    today    constant timestamptz := date_trunc('day', clock_timestamp(), 'UTC');
    returned integer := 0;
begin
    for held in
        select each.* from version_failure as each
         where is_held(each) and not exists (
               select from node_info as node
                where node.state = 'alive' and node.heartbeat_at > clock_timestamp() - node.lease
                  and node.report -> 'applications' ? each.application and not node.report ? 'held')
    loop
        select jsonb_object_agg(job_id, attempt) into attempts
          from (select job_id, attempt from job
                 where fingerprint = held.fingerprint and work_type = held.work_type
                   and (state = 'failed' or state = 'waiting' and waiting_for = 'time')
                   and exists (select from failed_attempt as run
                                where run.job_id = job.job_id and run.attempt = job.attempt
                                  and run.restarted_by is null and is_run_of(run, held))
                   -- Else those that cannot be opened again would come first each time.
                   and jsonb_path_exists(reopen_obstacles(job), '$ ? (@.parents.size() > 0 || @.has_unnamed_parents == true || @.holder != null)')
                       is not true
                 order by job_id limit at_most) as few;
        reopened := reopen(array(select jsonb_object_keys(attempts)::bigint));
        returned := returned + cardinality(reopened);
        -- What a node had claimed by then has come back by itself, with the attempts.
        select coalesce(attempts, '{}') || coalesce(jsonb_object_agg(job_id, attempt), '{}'), reopened || coalesce(array_agg(job_id), '{}')
          into attempts, reopened from job
         where state = 'ready' and attempt > 0 and work_type = held.work_type and job_id <> all (reopened) and job_id in (
               select job_id from failed_attempt as run
                where run.at >= today and run.ctid >= last_pages('failed_attempt', today, 128)
                  and run.restarted_by is null and is_run_of(run, held));
        with given as (
            update failed_attempt as run set restarted_by = 'the deploy guard'
             where run.job_id = any (reopened) and run.restarted_by is null and is_run_of(run, held)
            returning run.job_id
        ), spent as (
            select job_id, count(*) as runs from given group by job_id
        )
        update job set attempt = greatest(0, (attempts ->> job.job_id::text)::bigint - spent.runs)
          from spent where job.job_id = spent.job_id and job.state in ('waiting', 'ready');
    end loop;
    if returned > 0 then
        perform wake_masters(returned);
    end if;
    return returned;
end $$;

-- Releases a work type that the deploy guard holds, on all versions: what held it does not again. Returns whether it was
-- held.
create or replace function txqueue.release_type(its_work_type text, who text) returns boolean
language plpgsql volatile security definer
as $$
begin
    update version_failure as held set released_at = clock_timestamp()
     where held.work_type = its_work_type and is_held(held);
    if found then
        perform note_action(who, 'release', 'type ' || its_work_type);
    end if;
    return found;
end $$;

-- Whether a kind of failure holds its work type on its version.
create or replace function txqueue.is_held(this txqueue.version_failure) returns boolean
language sql immutable  -- inlined
as $$ select this.held_at is not null and this.released_at is null $$;

-- Whether a run failed by a kind, on its version.
create or replace function txqueue.is_run_of(run txqueue.failed_attempt, this txqueue.version_failure) returns boolean
language sql immutable  -- inlined
as $$ select run.fingerprint = this.fingerprint and run.work_type = this.work_type and run.application = this.application $$;

-- Whether older versions have had the work type, but none the kind of failure by which so many of so many runs on this version
-- failed; held ones do not count. An older version has the kind if, of its runs since this version began, at least a quarter
-- of this share failed so. One that has not run since has it if it had it before, but that ends no hold.
create or replace function txqueue.is_new_failure(this version_failure, its_failed bigint, its_runs bigint) returns boolean
language plpgsql stable
set enable_seqscan = off
as $$
declare
    began constant timestamptz := first_run(this.application, this.work_type);
begin
    return not exists (
            select from version_failure as other cross join lateral count_runs(other, 0, began) as its
             where other.work_type = this.work_type and other.fingerprint = this.fingerprint
               and other.application <> this.application and not is_held(other)
               and first_run(other.application, other.work_type) < began
               and case when its.runs > 0 then 4 * its.failed * its_runs >= its_failed * its.runs
                        else this.held_at is null and other.since < began end)
       and exists (
            select from version_failure as other
             where other.work_type = this.work_type and other.application <> this.application and other.since < began);
end $$;

-- When a version has first run a work type, as far as is known.
create or replace function txqueue.first_run(its_application text, its_work_type text) returns timestamptz
language sql stable  -- inlined
as $$
    select min(since) from txqueue.version_failure where application = its_application and work_type = its_work_type
$$;

-- How many runs of a work type on a version failed by a kind today, since a moment, of how many, and what the last one says:
-- without the number of all if fewer have failed than count. Of much history only the end is read, as in note_minute().
create or replace function txqueue.count_runs(
    this version_failure, failures integer, began timestamptz, out failed bigint, out runs bigint, out error text)
language plpgsql stable
as $$
declare
    since timestamptz := greatest(date_trunc('day', clock_timestamp(), 'UTC'), began);
    first timestamptz;
    latest bigint;
begin
    for each in 1..2 loop
        select count(*) filter (where is_run_of(run, this)), count(*) + coalesce(count_runs.runs, 0),
               (array_agg(run.job_id order by run.at desc) filter (where is_run_of(run, this)))[1]
          into failed, runs, latest
          from failed_attempt as run
         where run.at >= since and run.ctid >= last_pages('failed_attempt', since, 128)
           and run.work_type = this.work_type and run.application = this.application;
        exit when failed < failures or each = 2;
        select count(*) filter (where job.work_type = this.work_type and job.incarnation in (
                   select node.incarnation from node_info as node where node.report -> 'applications' ? this.application)),
               min(job.finished_at)
          into runs, first
          from job_done as job where job.finished_at >= since and job.ctid >= last_pages('job_done', since, 1024);
        if last_pages('job_done', since, 1024) > '(0,0)' then
            since := greatest(since, first);
        end if;
    end loop;
    -- The message of a redacted job may have what its payload has.
    select left(case when known.policy ?| '{redacted,encrypted}' or readable_json(job.options) ? 'redacted' or job.job_id is null
                     then run.error_class else split_part(readable_text(run.error), E'\n', 1) end, 200)
      into error
      from failed_attempt as run
      left join work_type as known on known.work_type = this.work_type
      left join job on job.job_id = run.job_id and job.state in ('waiting', 'ready', 'assigned', 'failed')
     where run.job_id = latest and is_run_of(run, this) order by run.at desc limit 1;
end $$;
