-- Parks the jobs again that have waited for the next token of their group's rate, by ctid, and makes the first job of each
-- such group ready, which may be another one by now: it has come since, or the waiting one's queue was paused. A group
-- whose key another session holds is looked at again in a moment. Returns how many jobs, null for null.
create or replace function txqueue.end_rate_waits(places tid[]) returns integer
language plpgsql strict volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    keys   constant smallint[] := try_keys(array(select distinct key_of("group") from job_waiting where ctid = any (places)));
    groups text[];
begin
    with its as (
        update job_waiting
           set waiting_for = case when key_of("group") = any (keys) then 'group' else 'rate' end,
               not_before = case when key_of("group") = any (keys) then not_before else clock_timestamp() + interval '50 milliseconds' end
         where ctid = any (places)
        returning "group", waiting_for
    )
    select array_agg("group") into groups from its where waiting_for = 'group';
    if groups is not null then
        perform free_groups(groups);
    end if;
    return cardinality(places);
end $$;
