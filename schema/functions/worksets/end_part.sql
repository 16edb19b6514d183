-- Counts a part as processed, once and fenced by the job's token: returns false, and changes nothing, if the
-- job has another assignment or does not hold the part. Failed items are stored apart: an array of objects
-- with key and error, and delay (seconds) if they are retried.
create or replace function txqueue.end_part(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_part bigint, failures jsonb default null)
returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    this    workset_part;
    its     workset;
    again   text[] := '{}';
    lost    text[] := '{}';
begin
    perform from job_assigned as job
      where job.job_id = its_job_id and job.assignment = its_assignment and job.incarnation = its_incarnation
        for key share;
    if not found then
        return false;
    end if;
    delete from workset_part where part_id = its_part and job_id = its_job_id returning * into this;
    if not found then
        return false;
    end if;
    select * into its from workset where workset_id = this.workset_id;
    if jsonb_array_length(failures) > 0 then
        with given as (
            select * from jsonb_to_recordset(failures) as each (key text, error text, delay double precision)
        ), kept as (
            insert into workset_failed (workset_id, origin, key, attempt, error)
            select this.workset_id, this.origin, key, this.attempt + 1, error from given where delay is null
            on conflict (workset_id, origin, key) do update set attempt = excluded.attempt, error = excluded.error, at = excluded.at
        ), put as (
            insert into workset_part (workset_id, origin, keys, items, attempt, not_before)
            select this.workset_id, this.origin, array_agg(key), count(*), this.attempt + 1,
                   clock_timestamp() + make_interval(secs => max(delay))
              from given where delay is not null having count(*) > 0
        )
        select coalesce(array_agg(key) filter (where delay is not null), '{}'),
               coalesce(array_agg(key) filter (where delay is null), '{}')
          into again, lost from given;
    end if;
    if its.source is null then
        execute format('delete from %I where _part = $1 and ($2 is null or _number = any ($2)) and _number <> all ($3)',
                       'workset_' || its.name)
          using this.origin, this.keys::integer[], (again || lost)::integer[];
    end if;
    update workset_slot set done = workset_slot.done + this.items - cardinality(again || lost),
                         failed = workset_slot.failed + cardinality(lost)
     where workset_slot.job_id = its_job_id;
    return true;
end $$;
