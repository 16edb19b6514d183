-- Enqueues as many jobs of a pool as are missing to its size, none for parts that there are not.
create or replace function txqueue.fill_slots(its_pool integer) returns integer
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    its      pool;
    live     integer;
    missing  integer;
begin
    select * into strict its from pool where pool_id = its_pool;
    -- A session that fills a pool at work need not wait for others that do.
    for round in 1 .. 2 loop
        select count(*) into live from pool_slot where pool_id = its_pool and job_id > 0 and is_live_job(job_id);
        select case when its.is_cut then least(its.size, count(*)) else its.size end - live into missing
          from (select from pool_part where pool_id = its_pool limit its.size) as parts;
        if missing <= 0 then
            return 0;
        end if;
        -- One that lives finds all there is: it cannot end before the filling session has committed.
        if live = 0 then
            perform lock_pool('slots ' || its.name, true);
        elsif not lock_pool('slots ' || its.name, false) then
            return 0;
        end if;
    end loop;
    -- What those have counted that ended otherwise than by finding nothing left is kept under a number of no job.
    with gone as (
        delete from pool_slot where pool_id = its_pool and job_id > 0 and not is_live_job(job_id) returning *
    )
    insert into pool_slot as kept (job_id, pool_id, done, failed)
    select -its_pool, its_pool, sum(gone.done), sum(gone.failed) from gone having sum(gone.done + gone.failed) > 0
    on conflict (job_id) do update set done = kept.done + excluded.done, failed = kept.failed + excluded.failed;
    insert into pool_slot (job_id, pool_id)
    select job_id, its_pool
      from unnest(enqueue_many((select jsonb_agg(its.job) from generate_series(1, missing)))) as job_id;
    return missing;
end $$;
