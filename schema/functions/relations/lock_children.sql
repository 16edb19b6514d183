-- Locks the children of some jobs in sorted order, and returns their numbers: two parents of one child that
-- end at the same time must see each other. If the parents are not done, it also locks the children's own
-- children, and the parents themselves if they wait, as these end too. Children enqueued later are left to
-- propagate_late_ends(); a second search in the same transaction would lock out of order. A job that waits for a
-- moment beside its calls is a child, too. A caller that holds other locks may not wait, and gets only the children
-- that are free.
create or replace function txqueue.lock_children(done bigint[], not_done bigint[], may_wait boolean default true) returns bigint[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    found bigint[];
begin
    if not exists (select from job_parent where parent = any (done || not_done))
       and not exists (select from job_parent where child = any (not_done)) then
        return '{}';
    end if;
    found := array(
        with recursive heir (job_id) as (
            select unnest(not_done)
            union
            select further.child from heir join job_parent as further on further.parent = heir.job_id
        )
        select job_id from heir
        union
        select child from job_parent where parent = any (done));
    if may_wait then
        return array(
            select job_id from job_waiting where job_id = any (found)
           and (waiting_for = 'parents' or waiting_for = 'time' and exists (select from job_parent where child = job_id))
         order by job_id for update);
    end if;
    return array(
        select job_id from job_waiting where job_id = any (found)
           and (waiting_for = 'parents' or waiting_for = 'time' and exists (select from job_parent where child = job_id))
         order by job_id for update skip locked);
end $$;
