-- The terms of a job for its worker, as JSON text: the options it was enqueued with, whether it counts for a
-- limit (of a group, a queue or a tenant), and how many seconds are left until its not_after. Without
-- settings of its own, so that it is inlined.
create or replace function txqueue.job_terms(options jsonb, "group" text, not_after timestamptz) returns text
language sql volatile
as $$
    select case
        when ("group" is null and not_after is null) or jsonb_typeof(options) <> 'object' then coalesce(options::text, 'null')
        else (coalesce(options, '{}') || jsonb_strip_nulls(jsonb_build_object(
            'grouped', case when "group" is not null then true end,
            'left', case when isfinite(not_after) then extract(epoch from not_after - clock_timestamp()) end)))::text end
$$;
