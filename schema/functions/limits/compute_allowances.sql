-- How many jobs a claim may take from each of some queues or tenants, in the order given: null for any number.
-- The claim holds the keys of the limited ones from now on; while another claim holds a key, that allowance is
-- 0. opens_in then has the seconds after which to retry, if only time has to pass. Only next_job() and its steps
-- call it; their settings pin the plans and the search path.
create or replace function txqueue.compute_allowances(its_kind text, names text[])
returns table (name text, jobs integer, opens_in double precision, share double precision, reserve double precision, is_counted boolean)
language plpgsql volatile
as $$
declare
    contended constant double precision := 0.005;
    limited   text[];
    keys      smallint[];
    running   bigint[];
begin
    select array_agg(control.key),
           array_agg(txqueue.key_of(its_kind || ' ' || control.key)) filter (
               where not control.is_paused and (control.concurrency is not null or control.rate is not null))
      into limited, keys
      from txqueue.control where control.kind = its_kind and control.key = any (names);
    if limited is null then
        return query select its.name, null::integer, null::float8, null::float8, null::float8, false
                       from unnest(names) with ordinality as its (name, place) order by its.place;
        return;
    end if;
    if keys is not null then
        keys := txqueue.try_keys(keys);
        -- Counted under the locks.
        if its_kind = 'queue' then
            running := array(select (select count(*) from txqueue.job_assigned where queue = each.name and counted is not null)
                               from unnest(names) with ordinality as each (name, place) order by each.place);
        else
            running := array(select case when each.name = any (limited) then
                                    (select count(*) from txqueue.job_assigned where tenant = each.name) end
                               from unnest(names) with ordinality as each (name, place) order by each.place);
        end if;
    end if;
    return query
    select its.name,
           case when control.is_paused then 0
                when control.concurrency is null and control.rate is null then null
                when not its.is_locked then 0
                else greatest(0, least(control.concurrency - its.running, bucket.jobs)) end::integer,
           case when control.is_paused or control.concurrency is null and control.rate is null then null
                when not its.is_locked then contended
                when control.concurrency <= its.running then null
                else bucket.opens_in end,
           control.share, control.reserve, control.concurrency is not null
      from (select *, txqueue.key_of(its_kind || ' ' || each.name) in (select unnest(keys)) as is_locked
              from rows from (unnest(names), unnest(running)) with ordinality as each (name, running, place)) as its
      -- Offset 0 has each looked up by its key: with few rows expected, the planner would compare each with all others.
      left join lateral (select * from txqueue.control as one where one.kind = its_kind and one.key = its.name offset 0) as control on true
      left join lateral (select * from txqueue.bucket_level(control) where control.rate is not null offset 0) as bucket on true
     order by its.place;
end $$;
