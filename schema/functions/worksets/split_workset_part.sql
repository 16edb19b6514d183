-- Divides a part that a job holds into smaller ones, so that the failing item is found and the others are not
-- affected. keys has the keys of all its items, in order.
create or replace function txqueue.split_workset_part(
    its_incarnation integer, its_assignment bigint, its_job_id bigint, its_part bigint, its_keys text[], size integer,
    delay double precision default 0)
returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    this workset_part;
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
    insert into workset_part (workset_id, origin, keys, items, attempt, not_before)
    select this.workset_id, this.origin, array_agg(key order by place), count(*), this.attempt,
           clock_timestamp() + make_interval(secs => delay)
      from unnest(its_keys) with ordinality as each (key, place)
     group by (place - 1) / size order by (place - 1) / size;
    return true;
end $$;
