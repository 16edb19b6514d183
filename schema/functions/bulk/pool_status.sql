-- How far each pool is. The parts are counted, not the items.
create or replace view txqueue.pool_status as
select pool.name, pool.work_type, pool.source, pool.size, pool.batch, pool.bound, pool.is_started,
       parts.parts, parts.held as running, parts.waiting_until,
       pool.done + slots.done as done, pool.failed + slots.failed as failed, slots.jobs,
       case when pool.is_cut then parts.items
            else greatest(parts.items, pool.expected - pool.done - slots.done - pool.failed - slots.failed) end as remaining,
       pool.is_cut as is_exact
  from txqueue.pool,
       lateral (select count(*) as parts, coalesce(sum(items), 0)::bigint as items, count(job_id) as held,
                       min(not_before) filter (where job_id is null and not_before > clock_timestamp()) as waiting_until
                  from txqueue.pool_part as part where part.pool_id = pool.pool_id) as parts,
       lateral (select coalesce(sum(slot.done), 0)::bigint as done, coalesce(sum(slot.failed), 0)::bigint as failed,
                       count(job.job_id) as jobs
                  from txqueue.pool_slot as slot
                  left join txqueue.job as job on job.job_id = slot.job_id and job.state in ('waiting', 'ready', 'assigned')
                 where slot.pool_id = pool.pool_id) as slots;
comment on view txqueue.pool_status is 'How far each pool is.';
