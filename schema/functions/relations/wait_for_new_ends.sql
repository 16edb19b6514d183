-- Has children, locked by the caller, wait for the new ends of jobs that had ended and are open again. Marks
-- those as followed: if a job had ended before its child was enqueued, nothing has marked it yet.
create or replace function txqueue.wait_for_new_ends(reopened bigint[], children bigint[]) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    followed_ids bigint[];
begin
    with opened as (
        update job_parent set ended = null
         where parent = any (reopened) and child = any (children) and ended is not null returning parent
    )
    select array_agg(distinct parent) into followed_ids from opened;
    update job set followed = 1
     where job_id = any (followed_ids) and state in ('waiting', 'ready', 'assigned') and followed is null;
end $$;
