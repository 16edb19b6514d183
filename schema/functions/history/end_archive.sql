-- Notes that a day of history has been archived and read back, with the numbers of its jobs and what stats() counts
-- of it. Returns false if it changed meanwhile, or another attempt has begun.
create or replace function txqueue.end_archive(
    its_leaf text, its_attempt integer, its_location text, its_jobs bigint, its_checksum text) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    numbers record;
    counted jsonb;
begin
    if to_regclass(format('%I', its_leaf)) is null then
        return false;
    end if;
    -- Jobs of a day have mostly adjacent numbers. An aggregate of single numbers would hold all of them in memory.
    execute format(
        'select min(low) as lowest, max(high) as highest,
                case when count(*) <= 1000000 then coalesce(range_agg(int8range(low, high, ''[]'')), ''{}'') end as ids
           from (select min(job_id) as low, max(job_id) as high
                   from (select job_id, job_id - dense_rank() over (order by job_id) as island from %I) as each
                  group by island) as islands', its_leaf) into numbers;
    execute format(
        'select coalesce(jsonb_agg(to_jsonb(sums)), ''[]'')
           from (select date_trunc(''hour'', finished_at, ''UTC'') as hour, work_type, count(*) as jobs,
                        count(coalesce(started_at, assigned_at)) as began,
                        sum(extract(epoch from finished_at - coalesce(started_at, assigned_at)))::float8 as busy,
                        max(extract(epoch from finished_at - coalesce(started_at, assigned_at)))::float8 as longest,
                        sum(extract(epoch from coalesce(started_at, assigned_at) - greatest(enqueued_at, not_before)))::float8 as waited
                   from %I group by 1, 2) as sums', its_leaf) into counted;
    update archived
       set location = its_location, jobs = its_jobs, checksum = its_checksum, verified_at = clock_timestamp(),
           lowest = numbers.lowest, highest = numbers.highest, ids = numbers.ids, hours = counted
     where leaf = its_leaf and attempt = its_attempt and dropped_at is null;
    return found;
end $$;
