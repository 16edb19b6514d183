-- Moves jobs of one assignment from one assigned table to history. The numbers go into the
-- statement as a literal: with a parameter the planner scans the table for each of them.
create or replace function @schema@.complete_in(
    leaf text, its_incarnation integer, its_assignment bigint, ids text, out jobs integer, out groups text[])
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
    execute format($complete$
        with gone as (
            delete from %1$I
             where job_id = any (%2$L::bigint[]) and assignment = $1 and incarnation = $2
            returning *
        ), put as (
            insert into job_done (job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at,
                finished_at, assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state,
                work_type, queue, "group", options, payload, error)
            select job_id, rank, not_before, not_after, enqueued_at, assigned_at, started_at,
                clock_timestamp(), assignment, node_id, incarnation, weight, priority, attempt + 1, deaths, lane, 'done',
                work_type, queue, "group", options, payload, error
              from gone
        )
        select count(*), array_agg("group") filter (where "group" is not null) from gone
        $complete$, leaf, ids::bigint[])
      into jobs, groups using its_assignment, its_incarnation;
end $$;
