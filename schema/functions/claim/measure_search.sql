-- How long a claim that began at a moment searched: longer than the jobs that it took or parked account for. If it left
-- none, rank and job_id are the position from which the next claim may go on; foremost is the first job that was ready.
-- Only next_job() calls it.
create or replace function txqueue.measure_search(
    began timestamptz, jobs integer, queues text[], foremost txqueue.ready_head, has_left boolean,
    out seconds double precision, out rank timestamptz, out job_id bigint)
language plpgsql volatile
as $$
begin
    -- A job that is taken, or parked, accounts for 50 microseconds.
    began := began + make_interval(secs => 5e-5 * jobs);
    if not has_left then
        rank := foremost.rank;
        job_id := foremost.job_id;
        if clock_timestamp() - began > interval '10 milliseconds' then
            select coalesce(last.rank, foremost.rank), coalesce(last.job_id, foremost.job_id)
              into measure_search.rank, measure_search.job_id
              from txqueue.find_last(queues, foremost) as last;
        end if;
    end if;
    seconds := greatest(0, extract(epoch from clock_timestamp() - began));
end $$;
