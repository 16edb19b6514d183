-- Moves rows of one ready lane, locked by the caller, to the assigned lane as one chunk, and
-- returns the chunk as JSON text, [[job_id, work_type, attempt, weight, payload, options], ...], in rank
-- order. Nobody parses it before the worker does.
create or replace function @schema@.assign(
    its_lane smallint, tids tid[], its_node integer, its_incarnation integer,
    out assignment bigint, out jobs integer, out weight bigint, out chunk text)
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
set jit = off
as $$
begin
    assignment := nextval('assignment');
    execute format($move$
        with gone as (
            delete from job_ready_%1$s where ctid = any ($1) returning *
        ), put as (
            insert into job_assigned_%1$s (job_id, rank, not_before, not_after, enqueued_at, assigned_at,
                assignment, node_id, incarnation, weight, priority, attempt, deaths, lane, state, work_type,
                queue, "group", options, payload, error)
            select job_id, rank, not_before, not_after, enqueued_at, clock_timestamp(),
                $2, $3, $4, weight, priority, attempt, deaths, lane, 'assigned', work_type,
                queue, "group", options, payload, error
              from gone
        )
        select count(*), sum(weight),
               '[' || string_agg('[' || job_id || ',"' || work_type || '",' || attempt || ',' || weight || ',' || payload::text || ','
                   || coalesce(options::text, 'null') || ']', ',' order by rank, job_id) || ']'
          from gone
        $move$, its_lane)
      into jobs, weight, chunk using tids, assignment, its_node, its_incarnation;
end $$;
