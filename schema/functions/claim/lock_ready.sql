-- Locks the first ready jobs of one lane and queue, in rank order from one position up to another, and
-- returns the columns that a claim needs and the position of the last: jobs without a tenant, or of one
-- tenant, or of priority 7 and higher. Suspects are jobs that were running when two processes died;
-- most_deaths excludes them. One function per lane, so that its plans are kept; the plans are pinned, because
-- the planner's own choice ran six times slower.
create or replace function txqueue.lock_ready_0(
    its_queue text, work_types text[], from_rank timestamptz, from_job bigint, until_rank timestamptz, until_job bigint,
    at_most integer, most_deaths integer, its_tenant text, only_high boolean,
    out jobs integer, out tids tid[], out weight bigint, out heaviest integer, out octets bigint,
    out grouped integer, out suspects tid[], out gravest tid[], out last_rank timestamptz, out last_job bigint)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
#variable_conflict use_column
begin
    until_rank := coalesce(until_rank, 'infinity');
    until_job := coalesce(until_job, 9223372036854775807);
    if only_high then
        select count(*), array_agg(locked.tid), sum(locked.weight), max(locked.weight), sum(locked.octets),
               count(locked."group"), array_agg(locked.tid) filter (where locked.deaths > 1),
               array_agg(locked.tid) filter (where locked.deaths > 2)
          into jobs, tids, weight, heaviest, octets, grouped, suspects, gravest
          from (select ctid as tid, weight, payload_octets(payload) + coalesce(octet_length(options::text), 0) as octets, "group", deaths
                  from job_ready_0
                 where queue = its_queue and priority >= 7 and work_type = any (work_types) and deaths <= most_deaths
                   and (rank, job_id) >= (from_rank, from_job) and (rank, job_id) <= (until_rank, until_job)
                 order by rank, job_id limit at_most for update skip locked) as locked;
    elsif its_tenant is not null then
        select count(*), array_agg(locked.tid), sum(locked.weight), max(locked.weight), sum(locked.octets),
               count(locked."group"), array_agg(locked.tid) filter (where locked.deaths > 1),
               array_agg(locked.tid) filter (where locked.deaths > 2)
          into jobs, tids, weight, heaviest, octets, grouped, suspects, gravest
          from (select ctid as tid, weight, payload_octets(payload) + coalesce(octet_length(options::text), 0) as octets, "group", deaths
                  from job_ready_0
                 where queue = its_queue and tenant = its_tenant and work_type = any (work_types) and deaths <= most_deaths
                   and (rank, job_id) >= (from_rank, from_job) and (rank, job_id) <= (until_rank, until_job)
                 order by rank, job_id limit at_most for update skip locked) as locked;
    else
        select count(*), array_agg(locked.tid), sum(locked.weight), max(locked.weight), sum(locked.octets),
               count(locked."group"), array_agg(locked.tid) filter (where locked.deaths > 1),
               array_agg(locked.tid) filter (where locked.deaths > 2)
          into jobs, tids, weight, heaviest, octets, grouped, suspects, gravest
          from (select ctid as tid, weight, payload_octets(payload) + coalesce(octet_length(options::text), 0) as octets, "group", deaths
                  from job_ready_0
                 where queue = its_queue and tenant is null and work_type = any (work_types) and deaths <= most_deaths
                   and (rank, job_id) >= (from_rank, from_job) and (rank, job_id) <= (until_rank, until_job)
                 order by rank, job_id limit at_most for update skip locked) as locked;
    end if;
    select rank, job_id into last_rank, last_job from job_ready_0 where ctid = tids[cardinality(tids)];
end $$;
