-- Whether a node serves a queue and a type. Without settings of its own, so that it is inlined.
create or replace function txqueue.serves_type(node txqueue.node_info, its_queue text, its_type text) returns boolean
language sql immutable
as $$ select its_queue = any (node.queues) and its_type = any (node.work_types) $$;
