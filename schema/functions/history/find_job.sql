-- Finds a job by its number: among live and failed jobs, then in the days of history that can have it, the
-- latest first. A statement without a state would be planned for every day. An archived job is in a file that SQL
-- cannot read, so that there is no row of it: find_archived() tells where it is.
create or replace function txqueue.find_job(its_id bigint) returns setof txqueue.job
language plpgsql stable security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    today constant date := (clock_timestamp() at time zone 'UTC')::date;
    day   record;
begin
    return query select * from job where job_id = its_id and state in ('waiting', 'ready', 'assigned', 'failed');
    if found then
        return;
    end if;
    for day in
        select child.relname::text as leaf
          from pg_inherits
          join pg_class as child on child.oid = inhrelid
          left join history_day as known on known.leaf = child.relname::text
         where inhparent in ('job_done'::regclass, 'job_cancelled'::regclass)
           and case when known.leaf is not null then its_id between known.lowest and known.highest
                    else right(child.relname, 8) <= to_char(today + 1, 'YYYYMMDD') end
         order by right(child.relname, 8) desc
    loop
        return query execute format('select * from %I where job_id = $1', day.leaf) using its_id;
        if found then
            return;
        end if;
    end loop;
    -- A search of all days, slower but independent of the recorded numbers.
    return query select * from job where job_id = its_id;
end $$;
comment on function txqueue.find_job(bigint) is
    'A job by its number; no row for an archived one, whose state, day and archive find_archived() tells.';
