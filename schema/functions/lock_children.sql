-- Locks the jobs that wait for some others, and those that wait for them in turn, in the order in which all do: two
-- parents of one child that end at the same time must see each other.
create or replace function @schema@.lock_children(ids bigint[]) returns void
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
    if not exists (select from job_parent where parent = any (ids)) then
        return;
    end if;
    perform from job_waiting where job_id = any (array(
        with recursive heir (job_id) as (
            select child from job_parent where parent = any (ids)
            union
            select further.child from heir join job_parent as further on further.parent = heir.job_id
        )
        select job_id from heir)) order by job_id for update;
end $$;
