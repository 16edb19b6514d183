-- Parks ready jobs of one lane: those locked by a claim whose group it holds, but for those that it
-- takes, and what else there is of a group of which no more may run. Returns how many.
create or replace function @schema@.park(leaf text, locked tid[], held text[], rooms integer[], taken tid[]) returns integer
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    full_  text[];
    parked integer;
begin
    execute format('select array_agg(name) from unnest($1, $2) as slots (name, room)
          where room <= (select count(*) from %s as mine where mine.ctid = any ($3) and mine."group" = name)', leaf)
       into full_ using held, rooms, taken;
    execute format('with gone as (
            delete from %1$s where ctid = any (
                array(select ctid from %1$s where ctid = any ($1) and "group" = any ($2) and ctid <> all ($3))
                || array(select ctid from %1$s where "group" = any ($4) and ctid <> all ($3) limit 10000 for update skip locked))
            returning *
        ), put as (
            insert into job_waiting (job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
                                     lane, state, waiting_for, work_type, queue, "group", tenant, options, payload, error)
            select job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
                   lane, ''waiting'', ''group'', work_type, queue, "group", tenant, options, payload, error
              from gone
        )
        select count(*) from gone', leaf)
       into parked using locked, held, taken, coalesce(full_, '{}');
    return parked;
end $$;
