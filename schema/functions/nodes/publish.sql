-- Publishes the policies of work types, and readies jobs that waited for one of them: up to 10,000, the others
-- with the next heartbeats. Returns how many.
create or replace function txqueue.publish(work_types jsonb) returns integer
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    insert into work_type as known (work_type, queue, priority, weight, policy)
    select each.work_type, each.queue, each.priority, each.weight, coalesce(each.policy, '{}')
      from jsonb_to_recordset(work_types) as each (
               work_type text, queue text, priority smallint, weight integer, policy jsonb)
     -- Only what changes: the clause on conflicts locks each row until the commit, and nodes that start together
     -- would wait for each other.
     where not exists (
        select from work_type as same
         where same.work_type = each.work_type
           and (same.queue, same.priority, same.weight, same.policy)
               is not distinct from (each.queue, each.priority, each.weight, coalesce(each.policy, '{}')))
     order by each.work_type
    on conflict (work_type) do update
       set queue = excluded.queue, priority = excluded.priority, weight = excluded.weight,
           policy = excluded.policy, published_at = clock_timestamp()
     where (known.queue, known.priority, known.weight, known.policy)
           is distinct from (excluded.queue, excluded.priority, excluded.weight, excluded.policy);
    return make_published_ready();
end $$;
