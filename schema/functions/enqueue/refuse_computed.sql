-- Refuses a job that does not name a key which only its class can compute.
create or replace function txqueue.refuse_computed(its_type text, key text) returns text
language sql volatile
set search_path = txqueue, pg_temp
as $$
    select refuse(
        format('the %s key of %s is computed by its class, which the database does not have', key, its_type),
        format('pass %s as an argument, or {"keys": false} as options (--no-keys) for none; the database computes a Key of fields of a work item, not one of a Django task''s parameters', key));
$$;
