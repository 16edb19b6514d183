-- Options without the one that is only for enqueueing. Without settings of its own, so that it is inlined.
create or replace function txqueue.without_keys_option(options jsonb) returns jsonb
language sql immutable
as $$
    select case when options ? 'keys' then nullif(options - 'keys', '{}') else options end
$$;
