-- The limits and pauses of a job's queue, group and tenant: what they have left, how many of their jobs run, and how
-- many ready ones go before it; silent has those of the running ones whose workers do not answer.
create or replace function txqueue.control_facts(this job) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    few    constant integer := 1000;
    silent constant bigint[] := silent_jobs();
    allowed constant jsonb := limited_now();
begin
    return coalesce((select jsonb_agg(to_jsonb(control) - 'control_id' || jsonb_build_object(
            'opens_in', bucket.opens_in, 'tokens', bucket.jobs,
            'ahead', case
                when concurrency is null and rate is null then 0
                when kind = 'queue' then (select count(*) from (
                    (select from job_ready as other where other.queue = key and other.tenant is null
                        and goes_first(other.job_id, other.rank, other.queue, other.work_type, null, this) limit few)
                    union all
                    (select from job_ready as other where other.queue = key and other.tenant is not null
                        and (allowed -> 'tenant' ->> other.tenant)::integer > 0 is not false
                        and goes_first(other.job_id, other.rank, other.queue, other.work_type, other.tenant, this) limit few)) as others)
                when kind = 'tenant' then (select count(*) from (
                    select from job_ready as other where other.tenant = key
                       and (allowed -> 'queue' ->> other.queue)::integer > 0 is not false
                       and goes_first(other.job_id, other.rank, other.queue, other.work_type, other.tenant, this) limit few) as others)
                else 0 end,
            'silent', (select coalesce(jsonb_agg(held.job_id), '[]') from job_assigned as held
                        where held.job_id = any (silent)
                          and (case kind when 'queue' then held.queue when 'tenant' then held.tenant end) = key
                          and (kind <> 'queue' or held.counted is not null)),
            'running', case kind
                when 'queue' then (select count(*) from job_assigned where queue = key and counted is not null)
                when 'group' then (select count(*) from job_assigned where "group" = key)
                else (select count(*) from job_assigned where tenant = key) end))
        from control cross join lateral bucket_level(control) as bucket
           where (kind, key) in (('queue', this.queue), ('group', this."group"), ('tenant', this.tenant))), '[]');
end $$;
