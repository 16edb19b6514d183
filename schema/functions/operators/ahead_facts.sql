-- How many ready jobs the nodes that could run a job could claim before it, their weight, that of the heaviest, and how
-- many of them are suspects. Not those that claims pass over: on a node that starts no job, or no suspect, or has no room for so heavy
-- ones however many others end, or has tried to read them; nor those of what is paused, or beyond what a limit allows now.
create or replace function txqueue.ahead_facts(this job) returns jsonb
language plpgsql volatile
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    most    constant integer := 10000;
    allowed constant jsonb := limited_now();
begin
    return (
        with offered as (
            select distinct queue, work_types, coalesce((report -> 'room' ->> 'takes_suspects')::boolean, true) as takes_suspects,
                   most_attainable(report, capacity, (select reserve from control where kind = 'queue' and key = queue)) as heaviest,
                   most_attainable(report, capacity, null) as heaviest_urgent,
                   array(select jsonb_array_elements_text(coalesce(report -> 'type_versions', to_jsonb(type_versions)))) as versions
              from node_info, unnest(case when cardinality(queues) < 100 then queues else ready_queues(queues, '-infinity', 0) end) as queue
             where state = 'alive' and heartbeat_at > clock_timestamp() - lease and starts_jobs(report)
               and this.queue = any (queues) and this.work_type = any (work_types)),
        -- The nodes of thousands of queues have few terms, which are compared with each job.
        placed_offer as materialized (
            select *, dense_rank() over (order by work_types, takes_suspects, heaviest, heaviest_urgent, versions) as place
              from offered where (allowed -> 'queue' ->> queue)::integer > 0 is not false),
        taker as materialized (select distinct on (place) * from placed_offer),
        first as (
            select other.*
              from (select queue, array_agg(place) as places from placed_offer group by queue) as wanted, lateral (
                   select * from job_ready
                    where job_ready.queue = wanted.queue and job_ready.tenant is null
                      and (this.tenant is not null or (rank, job_id) < (this.rank, this.job_id))
                   union all
                   select * from job_ready
                    where job_ready.queue = wanted.queue and job_ready.tenant is not null
                      and (job_ready.tenant is distinct from this.tenant or (rank, job_id) < (this.rank, this.job_id)
                           -- In the turn of the jobs without a tenant, as next_job() says.
                           or priority >= 7 and exists (
                                select from control where kind = 'queue' and key = wanted.queue and reserve > 0))) as other
             where exists (select from taker
                    where taker.place = any (wanted.places) and other.work_type = any (taker.work_types)
                      and (taker.takes_suspects or other.deaths <= 1)
                      and (other.weight > case when other.priority >= 7 then heaviest_urgent else heaviest end) is not true
                      and (readable_json(other.options) -> 'unread' ?| (versions || taker.work_types)) is not true)
               and (allowed -> 'tenant' ->> other.tenant)::integer > 0 is not false
               and not exists (select from control where is_paused
                       and (kind, key) in (('queue', other.queue), ('tenant', other.tenant), ('group', other."group")))
             limit most),
        placed as (
            -- Of tenants, the heaviest may start first: another one may wait for its turn or its group.
            select weight, deaths, queue, tenant,
                   row_number() over (partition by queue order by case when tenant is not null then weight end desc nulls last, rank, job_id) as in_queue,
                   row_number() over (partition by tenant order by weight desc, rank, job_id) as in_tenant
              from first)
        select jsonb_build_object('jobs', count(*), 'weight', coalesce(sum(weight), 0), 'heaviest', max(weight),
                         'suspects', count(*) filter (where deaths > 1))
          from placed
         where (in_queue > (allowed -> 'queue' ->> queue)::integer) is not true
           and (in_tenant > (allowed -> 'tenant' ->> tenant)::integer) is not true);
end $$;
