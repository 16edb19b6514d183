-- Whether a live node may be able to read a job's payload: it serves the queue and the type, and has a version of
-- the type that is none of those that could not. A node reports the versions that its workers have, if those
-- differ from what it registered.
create or replace function txqueue.has_reader(its_work_type text, its_queue text, unread jsonb) returns boolean
language sql stable
set search_path = txqueue, pg_temp
as $$
    select exists (
        select from node_info as node, lateral (
               select count(*) as known, count(*) filter (where not unread ? each.name) as untried
                 from jsonb_array_elements_text(coalesce(node.report -> 'type_versions', to_jsonb(node.type_versions))) as each (name)
                where split_part(each.name, '#', 1) = its_work_type) as versions
         where node.state = 'alive' and node.heartbeat_at > clock_timestamp() - node.lease
           and its_queue = any (node.queues) and its_work_type = any (node.work_types)
           and (versions.untried > 0 or versions.known = 0))
$$;
