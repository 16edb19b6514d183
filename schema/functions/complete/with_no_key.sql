-- Returns the options of a job with one more run of a node that has no key for it; of runs that have ended, none is kept.
create or replace function txqueue.with_no_key(options jsonb, its_incarnation integer) returns jsonb
language sql stable
set search_path = txqueue, pg_temp
as $$
    select case when jsonb_typeof(options) = 'object' then options else '{}' end || jsonb_build_object('no_key', (
        select jsonb_agg(distinct incarnation)
          from (select incarnation from node_info where options -> 'no_key' @> to_jsonb(incarnation) union select its_incarnation) as each))
$$;
