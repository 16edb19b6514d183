-- Whether tags are not valid: an object of at most 10 texts of at most 200 characters without control
-- characters, with names of 1 to 50 letters, digits, _ . and -. Only called for a job that has tags.
create or replace function txqueue.has_broken_tag(tags jsonb) returns boolean
language sql stable
as $$
    select case when jsonb_typeof(tags) <> 'object' then true else (
        select count(*) > 10 or coalesce(bool_or(
                   key !~ '^[A-Za-z0-9_.-]{1,50}$' or jsonb_typeof(value) <> 'string' or length(value #>> '{}') > 200
                   or value #>> '{}' ~ E'[\\x01-\\x1f\\x7f-\\x9f]'), false)
          from jsonb_each(tags)) end
$$;
