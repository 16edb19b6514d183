-- Moves rows of one ready lane, locked by the caller, to the assigned lane as one chunk, and returns the
-- chunk in rank order. Charges the rates of groups. One function per lane, so that its plan is kept. Three
-- plain statements over locked rows, because the rows that a deletion returns would be copied twice.
create or replace function txqueue.assign_0(
    tids tid[], its_node integer, its_incarnation integer, is_counted smallint,
    out assignment bigint, out jobs integer, out weight bigint, out chunk text)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
declare
    number bigint := next_assignment();
    groups text[];
begin
    insert into job_assigned_0 (job_id, rank, not_before, not_after, enqueued_at, assigned_at,
        assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state, work_type,
        queue, "group", tenant, counted, options, payload, error, followed)
    select job_id, rank, not_before, not_after, enqueued_at, clock_timestamp(),
        number, its_node, its_incarnation, weight, priority, attempt, deaths, lane, 'assigned', work_type,
        queue, "group", tenant, is_counted, options, payload, error, followed
      from job_ready_0 where ctid = any (tids);
    select number, count(*), sum(weight),
           chunk_of(string_agg(chunk_entry(job_id, work_type, attempt, weight, payload,
                                           job_terms(options, coalesce("group", is_counted::text), not_after)),
                               ',' order by rank, job_id)),
           array_agg("group") filter (where "group" is not null)
      into assignment, jobs, weight, chunk, groups
      -- Offset 0 has the rows read by their ctid. With the statistics of a small table, the planner would read the
      -- whole table in the order of an index, and keep that plan while the table grows.
      from (select * from job_ready_0 where ctid = any (tids) offset 0) as mine;
    delete from job_ready_0 where ctid = any (tids);
    if groups is not null and exists (select from control where kind = 'group' and rate is not null) then
        perform charge_control('group', spent.name, spent.jobs)
           from (select name, count(*)::integer as jobs from unnest(groups) as name group by name order by name) as spent;
    end if;
end $$;
