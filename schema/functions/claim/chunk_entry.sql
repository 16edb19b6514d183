-- One job of a chunk, as JSON text: the values of the fields that chunk_of() names, in that order. attempt
-- counts the failed runs; the entry has the number of the next run. Without settings of its own, so that it
-- is inlined.
create or replace function txqueue.chunk_entry(
    job_id bigint, work_type text, attempt smallint, weight integer, payload jsonb, terms text) returns text
language sql volatile
as $$
    select '[' || job_id || ',"' || work_type || '",' || attempt + 1 || ',' || weight || ',' || payload::text || ',' || terms || ']'
$$;
