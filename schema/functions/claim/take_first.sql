-- Moves the first ready jobs of one lane to the assigned lane as one chunk, for claim_ready(), unless one of
-- them is not ordinary (in a group, a suspect, heavier than 1 or with a large payload), or there is a control,
-- a pause for example. One function per lane, so that its plans are kept. Only claim_ready() calls it, whose
-- settings pin the plans and the search path.
create or replace function txqueue.take_first_0(
    its_node integer, its_incarnation integer, queues text[], work_types text[], at_most integer,
    out assignment bigint, out jobs integer, out chunk text, out is_ordinary boolean)
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    its_queue text := queues[1];
    tids      tid[];
    is_usual  boolean;
    number    bigint;
begin
    if cardinality(queues) > 1 then
        select wanted.queue into its_queue
          from unnest(queues) as wanted (queue),
               lateral (select ready.rank, ready.job_id from txqueue.job_ready_0 as ready
                         where ready.queue = wanted.queue and ready.tenant is null and ready.work_type = any (work_types)
                           and (ready.options -> 'unread' ?| work_types) is not true
                         order by ready.rank, ready.job_id limit 1) as first
         order by first.rank, first.job_id limit 1;
    end if;
    select array_agg(first.tid), bool_and(first.is_usual) and not exists (select from txqueue.control)
      into tids, is_usual
      from (select ctid as tid, "group" is null and deaths < 2 and weight = 1 and pg_column_size(payload) < 2000 as is_usual
              from txqueue.job_ready_0
             where queue = its_queue and tenant is null and work_type = any (work_types)
               and (options -> 'unread' ?| work_types) is not true
             order by rank, job_id limit at_most for update skip locked) as first;
    is_ordinary := is_usual is not false;
    jobs := 0;
    if is_usual then
        number := txqueue.next_assignment();
        with gone as (
            delete from txqueue.job_ready_0
             where ctid = any (tids)
               and exists (select from txqueue.node_info where incarnation = its_incarnation and state = 'alive')
            returning *
        ), put as (
            insert into txqueue.job_assigned_0 (job_id, rank, not_before, not_after, enqueued_at, assigned_at,
                assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state, work_type,
                queue, options, payload, error, followed)
            select job_id, rank, not_before, not_after, enqueued_at, clock_timestamp(),
                number, its_node, its_incarnation, weight, priority, attempt, deaths, lane, 'assigned', work_type,
                queue, options, payload, error, followed
              from gone
        )
        select number, count(*),
               txqueue.chunk_of(string_agg(txqueue.chunk_entry(job_id, work_type, attempt, weight, payload,
                   txqueue.job_terms(options, null, not_after)), ',' order by rank, job_id))
          into assignment, jobs, chunk from gone;
    end if;
end $$;
