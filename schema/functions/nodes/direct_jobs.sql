-- The jobs that were handed to a node by message: of one assignment, or of all assignments unknown to the
-- node, except the latest ones, whose messages may be on their way (those of the future, as the clock was set
-- back, are not). An assignment is returned as a whole or
-- not at all: one row each, with a chunk as claims return it, up to some megabytes of payloads in all, and at
-- least one. Its lane is that of its first job.
create or replace function txqueue.direct_jobs(
    its_incarnation integer, its_assignment bigint default null, known bigint[] default '{}')
returns table (lane smallint, assignment bigint, jobs integer, weight bigint, chunk text)
language sql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
    with unknown as materialized (
        select job.assignment,
               sum(sum(payload_octets(job.payload) + coalesce(octet_length(job.options::text), 0))) over running as octets,
               row_number() over running as place
          from job_assigned as job
         where job.incarnation = its_incarnation and job.handed is not null
           and job.assignment between coalesce(its_assignment, 0) and coalesce(its_assignment, 9223372036854775807)
           and (its_assignment is not null or job.assignment <> all (known))
         group by job.assignment
        having its_assignment is not null or max(job.assigned_at) not between clock_timestamp() - interval '0.3 seconds' and clock_timestamp()
        window running as (order by job.assignment)
    )
    select min(job.lane), job.assignment, count(*)::integer, sum(job.weight),
           chunk_of(string_agg(chunk_entry(job.job_id, job.work_type, job.attempt, job.weight, job.payload,
                                           job_terms(job.options, coalesce(job."group", job.counted::text), job.not_after)),
                               ',' order by job.rank, job.job_id))
      from unknown join job_assigned as job on job.assignment = unknown.assignment
     where job.incarnation = its_incarnation and job.handed is not null
       and (unknown.octets <= 4194304 or unknown.place = 1)
     group by job.assignment
$$;
