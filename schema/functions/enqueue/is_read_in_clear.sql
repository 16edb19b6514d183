-- Whether a live node has a version of a type whose payloads are not encrypted.
create or replace function txqueue.is_read_in_clear(its_type text) returns boolean
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    select exists (
        select from node_info as node, jsonb_array_elements_text(coalesce(report -> 'type_versions', to_jsonb(type_versions))) as each (name)
         where node.state in ('alive', 'draining')
           and starts_with(each.name, its_type || '#') and not starts_with(each.name, its_type || '#encrypted-'))
$$;
