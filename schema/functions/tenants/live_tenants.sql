-- The tenants that have jobs which are not history: how many, since when the oldest could run, and their
-- limits. Empty until a first job of a tenant was enqueued.
create or replace view txqueue.live_tenants as
select counted.tenant, counted.waiting, counted.ready, counted.assigned, counted.failed, counted.oldest_ready,
       coalesce(control.share, 1) as share, control.concurrency, coalesce(control.is_paused, false) as is_paused
  from (select tenant,
               count(*) filter (where state = 'waiting') as waiting, count(*) filter (where state = 'ready') as ready,
               count(*) filter (where state = 'assigned') as assigned, count(*) filter (where state = 'failed') as failed,
               min(not_before) filter (where state = 'ready') as oldest_ready
          from txqueue.job
         where state in ('waiting', 'ready', 'assigned', 'failed') and tenant is not null
           and (select last_value = 1 from txqueue.has_tenants)
         group by tenant) as counted
  left join txqueue.control on control.kind = 'tenant' and control.key = counted.tenant;
comment on view txqueue.live_tenants is 'What each tenant has that is not history yet.';
