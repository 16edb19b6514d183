-- The first kinds of failure, up to a number, of each work type, with the number of its failed jobs and of those
-- that wait for a retry, each counted up to another number; is_more says that there may be more. It goes from
-- kind to kind by the index, and reads one job of each.
create or replace function txqueue.failure_kinds(most_kinds integer, most_jobs integer)
returns table (fingerprint text, work_type text, failed bigint, waiting bigint, first_seen timestamptz, last_seen timestamptz,
               example bigint, error text, is_more boolean)
language plpgsql stable security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    return query
    with recursive kind as (
        (select fingerprint, work_type from job where state in ('failed', 'waiting') and fingerprint is not null
          order by fingerprint, work_type limit 1)
        union all
        select following.fingerprint, following.work_type
          from kind,
               lateral (select fingerprint, work_type from job
                         where state in ('failed', 'waiting') and fingerprint is not null
                           and (fingerprint, work_type) > (kind.fingerprint, kind.work_type)
                         order by fingerprint, work_type limit 1) as following
    )
    select its.fingerprint, its.work_type, failed.jobs, waiting.jobs, oldest.failed_at, latest.failed_at, latest.job_id,
           left(split_part(readable_text(latest.error), E'\n', 1), 500), greatest(failed.jobs, waiting.jobs) >= most_jobs
      from (select * from kind limit most_kinds) as its
     cross join lateral (
        select count(*) as jobs
          from (select from job_failed where fingerprint = its.fingerprint and work_type = its.work_type limit most_jobs) as counted) as failed
     cross join lateral (
        select count(*) as jobs
          from (select from job_waiting where fingerprint = its.fingerprint and work_type = its.work_type limit most_jobs) as counted) as waiting
      left join lateral (
        select failed_at from job where state in ('failed', 'waiting') and fingerprint = its.fingerprint and work_type = its.work_type
         order by failed_at limit 1) as oldest on true
      left join lateral (
        select failed_at, job_id, error from job
         where state in ('failed', 'waiting') and fingerprint = its.fingerprint and work_type = its.work_type
         order by failed_at desc limit 1) as latest on true;
end $$;
