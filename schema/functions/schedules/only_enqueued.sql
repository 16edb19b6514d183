-- Returns the numbers of the jobs that this transaction has enqueued, each at its first place, and null for the
-- others: jobs that already held the unique key.
create or replace function txqueue.only_enqueued(ids bigint[]) returns bigint[]
language sql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
    select array_agg(case when is_new and place = first_place then job_id end order by place)
      from (select given.job_id, place, min(place) over (partition by given.job_id) as first_place,
                   exists (select from job where job.job_id = given.job_id and state in ('waiting', 'ready', 'assigned')
                              and enqueued_at = now()) as is_new
              from unnest(ids) with ordinality as given (job_id, place)) as found
$$;
