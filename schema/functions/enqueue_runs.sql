-- Enqueues jobs of schedules, all at once if none is refused, else each by itself, so that one does not keep the
-- others back. Returns their numbers in order, null for one refused, and why.
create or replace function @schema@.enqueue_runs(jobs jsonb, out ids bigint[], out errors text[])
language plpgsql volatile
set search_path = @schema@, pg_temp
as $$
declare
    this jsonb;
begin
    begin
        ids := enqueue_many(jobs);
        errors := array_fill(null::text, array[jsonb_array_length(jobs)]);
        return;
    exception when others then
        if left(sqlstate, 2) not in ('TX', '22', '23') then
            raise;
        end if;
    end;
    ids := '{}';
    errors := '{}';
    for this in select * from jsonb_array_elements(jobs) loop
        begin
            ids := ids || enqueue_many(jsonb_build_array(this));
            errors := errors || null::text;
        exception when others then
            if left(sqlstate, 2) not in ('TX', '22', '23') then
                raise;
            end if;
            ids := ids || null::bigint;
            errors := errors || sqlerrm;
        end;
    end loop;
end $$;
