-- Enqueues the jobs of due schedules and stores their next moments, atomically: an array of objects with
-- schedule_id, due (null if it was not computed yet), next ('infinity' for never, null if it depends on the
-- end of the job), moments (those that get a job), and where they apply put_off (the moment
-- whose job is put off until next), error, and ends if the schedule must be paused. Only a schedule whose next_due still
-- equals the given due is changed, so that each moment gets one job even if masters race or die. A schedule
-- whose job needs a locked unique key stays due. A moment whose key another job holds, and one at which the last
-- job of a schedule without overlap has not ended, gets no job and does not count. Returns how many jobs.
create or replace function txqueue.tick(ticks jsonb) returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    taken   jsonb;
    runs    jsonb;
    ids     bigint[];
    made    bigint[];
    errors  text[];
    held    boolean[];
begin
    with given as (
        select * from jsonb_to_recordset(ticks) as each (
            schedule_id bigint, due timestamptz, next timestamptz, moments timestamptz[], put_off timestamptz, error text, ends boolean)
    ), locked as materialized (
        -- Schedules that another master is ticking are skipped.
        select this.schedule_id, this.name, this.kind, readable_json(this.job) as job, given.next, given.moments, given.put_off, given.error, given.ends,
               this.until, this.times - this.runs as runs_left, this.overlap, this.zone,
               this.overlap = 'skip' and exists (
                   select from job where job_id = this.last_job and state in ('waiting', 'ready', 'assigned')) as is_running
          from given join schedule as this on this.schedule_id = given.schedule_id
         where this.is_active and this.next_due = coalesce(given.due, '-infinity')
         order by this.schedule_id
           for update of this skip locked
    )
    select coalesce(jsonb_agg(jsonb_build_object(
               'schedule_id', schedule_id, 'next', next, 'put_off', put_off, 'ends', ends,
               'error', coalesce(error, 'its job cannot be read: ' || (job ->> 'txqueue cannot read this')))), '[]'),
           coalesce(jsonb_agg(runs.run) filter (where runs.run is not null), '[]')
      into taken, runs
      from locked left join lateral (
           select jsonb_build_object('schedule_id', schedule_id, 'kind', kind, 'due', moment, 'job', job || jsonb_build_object(
                      'not_before', moment,
                      'options', coalesce(job -> 'options', '{}') || schedule_options(name, moment, zone))) as run
             from unnest(moments) with ordinality as each (moment, place)
            where not job ? 'txqueue cannot read this'
              and moment <= coalesce(until, 'infinity') and place <= coalesce(runs_left, place)
               and (overlap = 'allow' or place = 1 and not is_running)) as runs on true;
    if runs <> '[]' then
        select * into ids, errors, held
          from enqueue_runs((select jsonb_agg(run -> 'job' order by place)
                               from jsonb_array_elements(runs) with ordinality as each (run, place)));
        -- Only jobs with unique keys, their own or those of their types, may be there already.
        made := case when jsonb_path_exists(runs, '$[*].job.unique') or exists (select from work_type where policy -> 'keys' ? 'unique')
                     then only_enqueued(ids) else ids end;
        -- The end of a cool-down's job starts the cool-down.
        update job set followed = 1
         where state in ('waiting', 'ready') and followed is null and job_id = any (array(
            select ids[place] from jsonb_array_elements(runs) with ordinality as each (run, place)
             where run ->> 'kind' = 'cooldown'));
    end if;
    with given as (
        select distinct on (schedule_id) * from jsonb_to_recordset(taken) as each (
            schedule_id bigint, next timestamptz, put_off timestamptz, error text, ends boolean)
    ), ran as (
        select (run ->> 'schedule_id')::bigint as schedule_id, max(errors[place]) as error,
               -- One of several moments is not retried, as the others have their jobs.
               bool_or(held[place]) and count(*) = 1 as is_held,
               (array_agg(ids[place] order by place desc) filter (where ids[place] is not null))[1] as last,
               array_agg(made[place] order by place desc) filter (where made[place] is not null) as jobs,
               array_agg((run ->> 'due')::timestamptz order by place desc) filter (where made[place] is not null) as moments
          from jsonb_array_elements(runs) with ordinality as each (run, place) group by 1
    )
    update schedule as this
       set next_due = next_due_within(this.until, this.times - this.runs - coalesce(cardinality(ran.jobs), 0),
                                  case when this.kind = 'cooldown' and given.next is null and ran.last is null
                                       then clock_timestamp() + make_interval(secs => this.seconds + this.jitter * random())
                                       else given.next end),
           put_off = given.put_off,
           runs = this.runs + coalesce(cardinality(ran.jobs), 0),
           is_active = given.ends is not true,
           error = coalesce(given.error, ran.error),
           last_due = coalesce(ran.moments[1], this.last_due),
           last_job = coalesce(ran.last, this.last_job),
           recent = (coalesce(ran.jobs, '{}') || this.recent)[:20],
           dues = (coalesce(ran.moments, '{}') || this.dues)[:20]
      from given left join ran on ran.schedule_id = given.schedule_id
     where this.schedule_id = given.schedule_id and ran.is_held is not true;
    return coalesce(cardinality(array_remove(made, null)), 0);
end $$;
