-- Cancels unclaimed jobs, and records a request for the others that have not ended. Returns the numbers of
-- the first, and [[incarnation, assignment, job_id], ...] of the second.
create or replace function txqueue.cancel_unstarted(
    ids bigint[], who text, out cancelled bigint[], out requested jsonb)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    this   job;
    locked text[];
    children bigint[];
    groups text[] := '{}';
begin
    cancelled := '{}';
    children := lock_children(null, ids);
    locked := lock_groups(ids);
    -- A job that moves to another partition meanwhile is found there in the next round.
    for round in 1 .. 3 loop
        for this in
            delete from job
             where job_id = any (ids) and state in ('waiting', 'ready') and ("group" is null or "group" = any (locked))
            returning *
        loop
            this.state := 'cancelled';
            this.waiting_for := null;
            this.finished_at := clock_timestamp();
            this.error := 'cancelled by ' || who;
            insert into job values (this.*);
            cancelled := cancelled || this.job_id;
            groups := groups || this."group";
        end loop;
        insert into request (incarnation, job_id, assignment, who)
        select held.incarnation, held.job_id, held.assignment, cancel_unstarted.who from job_assigned as held
         where held.job_id = any (ids)
            on conflict do nothing;
        exit when not exists (
            select from job
             where job_id = any (ids) and state in ('waiting', 'ready') and ("group" is null or "group" = any (locked)));
    end loop;
    select coalesce(jsonb_agg(jsonb_build_array(held.incarnation, held.assignment, held.job_id)), '[]') into requested
      from job_assigned as held where held.job_id = any (ids);
    -- Not only the marked jobs, as another job may just have been enqueued to follow one.
    if cancelled <> '{}' and propagate_ends(cancelled, 'cancelled', children) then
        perform wake_masters(1000);
    end if;
    groups := array_remove(groups, null);
    if groups <> '{}' then
        perform free_groups(groups);
    end if;
end $$;
