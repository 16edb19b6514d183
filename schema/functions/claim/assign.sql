-- Moves rows of one ready lane, locked by the caller, to the assigned lane as one chunk, and returns the
-- chunk in rank order. Charges the rates of groups. One function per lane, so that its plan is kept. Three
-- plain statements over locked rows, because the rows that a deletion returns would be copied twice. take_step()
-- calls it, for next_job(), and claim_given(): their settings pin the plans and the search path.
create or replace function txqueue.assign_0(
    lane smallint, tids tid[], its_node integer, its_incarnation integer, is_counted smallint, is_alone boolean)
returns txqueue.claimed_chunk
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    number bigint := txqueue.next_assignment();
    its    txqueue.claimed_chunk;
    groups text[];
begin
    insert into txqueue.job_assigned_0 (job_id, rank, not_before, not_after, enqueued_at, assigned_at,
        assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state, work_type,
        queue, "group", tenant, counted, options, payload, error, followed)
    select job_id, rank, not_before, not_after, enqueued_at, clock_timestamp(),
        number, its_node, its_incarnation, weight, priority, attempt, deaths, lane, 'assigned', work_type,
        queue, "group", tenant, is_counted, options, payload, error, followed
      from txqueue.job_ready_0 where ctid = any (tids);
    select assign_0.lane, number, count(*), sum(weight),
           txqueue.chunk_of(string_agg(
               txqueue.chunk_entry(job_id, work_type, attempt, weight, payload,
                                   txqueue.job_terms(options, coalesce("group", is_counted::text), not_after)),
               ',' order by rank, job_id)), is_alone,
           array_agg("group") filter (where "group" is not null)
      into its.lane, its.assignment, its.jobs, its.weight, its.chunk, its.alone, groups
      -- Offset 0 has the rows read by their ctid. With the statistics of a small table, the planner would read the
      -- whole table in the order of an index, and keep that plan while the table grows.
      from (select * from txqueue.job_ready_0 where ctid = any (tids) offset 0) as mine;
    delete from txqueue.job_ready_0 where ctid = any (tids);
    -- Nested, as a condition with a subquery is run as a statement, whatever stands before it.
    if groups is not null then
        if exists (select from txqueue.control where kind = 'group' and rate is not null) then
            perform txqueue.charge_control('group', spent.name, spent.jobs)
               from (select name, count(*)::integer as jobs from unnest(groups) as name group by name order by name) as spent;
        end if;
    end if;
    return its;
end $$;
