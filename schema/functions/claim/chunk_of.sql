-- A chunk: the JSON text in which jobs travel to a worker, which is the first to parse it. It names the
-- fields once, before the entries that chunk_entry() has made, joined by commas. txqueue/model/assignment.py
-- parses it and documents the fields. Without settings of its own, so that it is inlined.
create or replace function txqueue.chunk_of(entries text) returns text
language sql volatile
as $$
    select '{"fields":["job_id","work_type","attempt","weight","payload","terms"],"jobs":[' || entries || ']}'
$$;
