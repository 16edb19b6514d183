-- Enqueues an array of jobs, each an object with the arguments of enqueue() as its keys, in the
-- caller's transaction; returns their numbers in the order given. All are accepted or none.
create or replace function txqueue.enqueue_many(jobs jsonb) returns bigint[]
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    known constant text[] := array['work_type', 'payload', 'queue', 'priority', 'weight', 'not_before', 'not_after', 'group',
                                   'options', 'tenant', 'unique', 'unique_mode', 'after', 'after_any_end'];
begin
    if exists (select from jsonb_array_elements(jobs) as job (value)
                where case jsonb_typeof(value) when 'object' then value - known <> '{}' else true end) then
        perform refuse_unknown_keys(jobs, known);
    end if;
    return enqueue_checked(jobs);
end $$;
comment on function txqueue.enqueue_many(jsonb) is 'Enqueue many jobs in the caller''s transaction.';
