-- Whether a ready job may be claimed before another one that has the same limit: it ranks before it, has a turn of its
-- own as that of another tenant, or a node may claim it that cannot run the other job, or passes over it.
create or replace function txqueue.goes_first(
    its_job_id bigint, its_rank timestamptz, its_queue text, its_work_type text, its_tenant text, this job) returns boolean
language sql volatile
set search_path = txqueue, pg_temp
as $$
    select its_job_id <> this.job_id and exists (
        select from node_info
         where state = 'alive' and heartbeat_at > clock_timestamp() - lease
           and its_queue = any (queues) and its_work_type = any (work_types) and starts_jobs(report)
           and ((its_rank, its_job_id) < (this.rank, this.job_id) or its_tenant is distinct from this.tenant
                or not (this.queue = any (queues) and this.work_type = any (work_types))
                or passes_over(report, capacity, this)))
$$;
