-- The progress of each workset, counted from its parts.
create or replace view txqueue.workset_status as
select workset.name, workset.work_type, workset.source, workset.size, workset.batch, workset.bound, workset.is_started,
       parts.parts, parts.held as running, parts.waiting_until,
       workset.done + slots.done as done, workset.failed + slots.failed as failed, slots.jobs,
       case when workset.is_cut then parts.items
            else greatest(parts.items, workset.expected - workset.done - slots.done - workset.failed - slots.failed) end as remaining,
       workset.is_cut as is_exact
  from txqueue.workset,
       lateral (select count(*) as parts, coalesce(sum(items), 0)::bigint as items, count(job_id) as held,
                       min(not_before) filter (where job_id is null and not_before > clock_timestamp()) as waiting_until
                  from txqueue.workset_part as part where part.workset_id = workset.workset_id) as parts,
       lateral (select coalesce(sum(slot.done), 0)::bigint as done, coalesce(sum(slot.failed), 0)::bigint as failed,
                       count(job.job_id) as jobs
                  from txqueue.workset_slot as slot
                  left join txqueue.job as job on job.job_id = slot.job_id and job.state in ('waiting', 'ready', 'assigned')
                 where slot.workset_id = workset.workset_id) as slots;
comment on view txqueue.workset_status is 'The progress of each workset.';
