-- Locks the first ready jobs of one lane and queue, in rank order up to a place in it, and says what a
-- claim must know of them. Suspects are jobs that were there when two processes died; most_deaths
-- leaves them out. The statement is planned anew each time: a cached generic plan of it
-- ran six times slower.
create or replace function @schema@.lock_ready(
    its_lane smallint, its_queue text, work_types text[], until_rank timestamptz,
    until_job bigint, at_most integer, most_deaths integer,
    out jobs integer, out tids tid[], out weight bigint, out heaviest integer, out octets bigint,
    out grouped integer, out suspects tid[])
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
begin
    execute format($claim$
        select count(*), array_agg(locked.tid), sum(locked.weight), max(locked.weight), sum(locked.octets),
               count(locked."group"), array_agg(locked.tid) filter (where locked.deaths > 1)
          from (select ctid as tid, weight, pg_column_size(payload) as octets, "group", deaths
                  from job_ready_%s
                 where queue = $1 and work_type = any ($2) and (rank, job_id) <= ($3, $4) and deaths <= $6
                 order by rank, job_id limit $5 for update skip locked) as locked
        $claim$, its_lane)
      into jobs, tids, weight, heaviest, octets, grouped, suspects
      using its_queue, work_types, coalesce(until_rank, 'infinity'), coalesce(until_job, 9223372036854775807), at_most,
            most_deaths;
end $$;
