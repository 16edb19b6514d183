-- Moves assigned jobs to the partitions of their outcomes, all with one statement, except those with a next
-- stage, those whose payload was not read, and those that wait for a step. Of two outcomes of one job the first counts. Returns the jobs for which settle() has more to do. Its
-- plan is pinned: each job is found by its number, and its outcome by a hash, so that many cost no more each
-- than a few.
create or replace function txqueue.end_assigned(
    its_incarnation integer, outcomes jsonb,
    out settled bigint[], out groups text[], out limited boolean, out done bigint[], out failed bigint[], out stopped bigint[],
    out retried bigint[], out others boolean)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_nestloop = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    often bigint[];
    ran_on bigint[];
begin
    with given as materialized (
        select each.*
          from rows from (jsonb_to_recordset(outcomes) as (
                   job_id bigint, assignment bigint, outcome text, delay double precision, error text, result jsonb,
                   unstarted boolean, progress jsonb, error_class text, log text, trace text, shape text, frames text)) with ordinality
               as each (job_id, assignment, outcome, delay, error, result, unstarted, progress, error_class, log, trace, shape, frames, place)
    ), said as materialized (
        select distinct on (job_id, assignment) * from given order by job_id, assignment, place
    ), traces as (
        -- Of all outcomes: one that does not count may have the frames of others. One value, as a join would copy
        -- all rows.
        select jsonb_object_agg(trace, E'\n\n' || frames) as frames_of from given where frames is not null and trace is not null
    ), gone as (
        delete from job_assigned
         where job_id = any (array(select said.job_id from said where (said.outcome in ('next', 'unread', 'suspended')) is not true)) and incarnation = its_incarnation
           -- Not a join, which might read all outcomes for each job.
           and ((job_id, assignment) in (select said.job_id, said.assignment from said where (said.outcome in ('next', 'unread', 'suspended')) is not true)) is true
        returning *
    ), ended as (
        select gone.*, said.place, said.outcome, said.delay, said.result as its_result, said.progress as its_progress,
               left(said.error_class, 200) as its_class, left(said.log, 8192) as its_log,
               said.outcome in ('retry', 'snooze') as waits,
               said.unstarted is not true as ran,
               coalesce(said.error || ((select frames_of from traces) ->> said.trace) || said.error, said.error, gone.error) as its_error,
               case when said.outcome not in ('retry', 'failed') then null
                    when (select frames_of from traces) ? said.trace then coalesce(said.shape, said.error)
                    else error_shape(coalesce(said.error, gone.error)) end collate "C" as shape,
               said.trace,
               case when said.outcome = 'snooze' or said.unstarted then gone.attempt else least(gone.attempt + 1, 32767) end as runs
          from gone join said on said.job_id = gone.job_id and said.assignment = gone.assignment
    ), known as (
        -- Failures that come together are mostly of few kinds.
        select jsonb_object_agg(concat(trace, ' ', shape), fingerprint(concat(shape, (select frames_of from traces) ->> trace))) as kinds
          from (select distinct trace, shape from ended where shape is not null) as few
    ), noted as (
        insert into failed_attempt (job_id, attempt, began, node_id, error, error_class, log)
        select job_id, runs, coalesce(started_at, assigned_at), node_id,
               -- To count its characters takes longer than to write it.
               case when octet_length(its_error) > 4000 then left(its_error, 4000) else its_error end, its_class, its_log
          from ended where outcome in ('retry', 'failed') and ran
    ), put as (
        -- The attempt of a waiting job has ended, and its process is alive.
        insert into job (job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at, finished_at,
            assignment, node_id, incarnation, weight, priority, attempt, deaths, lane,
            state, waiting_for, work_type, queue, "group", tenant, options, payload,
            error, fingerprint, failed_at, result, progress, followed)
        select job_id, rank,
            case when waits then clock_timestamp() + make_interval(secs => greatest(0, least(coalesce(delay, 0), 3155760000)))
                 else not_before end,
            not_after, enqueued_at, case when not waits then assigned_at end, case when not waits then started_at end,
            case when not waits then clock_timestamp() end,
            case when not waits then assignment end, case when not waits then node_id end, case when not waits then incarnation end,
            weight, priority, runs, case when waits and ran then 0 else deaths end, lane,
            case when waits then 'waiting' else outcome end::job_state, case when waits then 'time' end,
            work_type, queue, "group", tenant,
            case when waits and its_class = 'txqueue.errors.KeyUnavailable' then with_no_key(options, its_incarnation)
                 -- The run of a schedule has begun, whenever it goes on: see schedule_runs().
                 when outcome = 'snooze' and ran and options ? 'due' and not options ? 'began'
                 then (options - 'no_key') || jsonb_build_object('began', coalesce(started_at, assigned_at))
                 when options ? 'no_key' then nullif(options - 'no_key', '{}') else options end, payload,
            its_error, (select kinds from known) ->> concat(trace, ' ', shape), case when shape is not null then clock_timestamp() end,
            case when waits then result else its_result end,
            case when not waits then coalesce(its_progress, progress) end, followed
          from ended
    )
    select coalesce(array_agg(job_id order by place), '{}'),
           coalesce(array_agg("group") filter (where "group" is not null), '{}'),
           count(counted) > 0,
           coalesce(array_agg(job_id) filter (where followed is not null and outcome = 'done'), '{}'),
           coalesce(array_agg(job_id) filter (where followed is not null and outcome = 'failed'), '{}'),
           coalesce(array_agg(job_id) filter (where followed is not null and outcome = 'cancelled'), '{}'),
           array_agg(job_id) filter (where runs > 100 and ran and outcome in ('retry', 'failed')),
           array_agg(job_id) filter (where "group" is not null and options ? 'steps' and (ran or not waits)),
           array_agg(job_id) filter (where outcome = 'retry' and options ? 'unique'),
           exists (select from said where said.outcome in ('next', 'unread', 'suspended'))
      into settled, groups, limited, done, failed, stopped, often, ran_on, retried, others
      from ended;
    if ran_on is not null then
        delete from group_hold where job_id = any (ran_on);
    end if;
    if often is not null then
        perform forget_attempts(job_id) from unnest(often) as job_id;
    end if;
end $$;
