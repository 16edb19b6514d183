-- Raises the error of an array of jobs of which one is no object, or has a key that enqueue() does not have.
create or replace function txqueue.refuse_unknown_keys(jobs jsonb, known text[]) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    wrong constant text := (
        select left(min(key), 200)
          from jsonb_array_elements(jobs) as job (value)
         cross join lateral jsonb_object_keys(case jsonb_typeof(value) when 'object' then value else '{}' end) as key
         where key <> all (known));
begin
    if wrong is null then
        perform refuse('a job of enqueue_many() is not a JSON object', 'pass an array of objects');
    end if;
    perform refuse(format('a job of enqueue_many() has no %s', wrong),
                   format('%suse %s', nearest_name(wrong, known), array_to_string(known, ', ')));
end $$;
