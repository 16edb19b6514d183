-- Enqueues jobs of schedules, all at once if none is refused, else one by one, so that a refusal does not
-- affect the others. Returns their numbers in order, null with a reason for a refused one, and whether an
-- open transaction locks something that the job needs, such as its unique key; a tick waits only very briefly
-- for it.
create or replace function txqueue.enqueue_runs(jobs jsonb, out ids bigint[], out errors text[], out held boolean[])
language plpgsql volatile
set search_path = txqueue, pg_temp
set lock_timeout = '50ms'
as $$
declare
    this jsonb;
begin
    begin
        ids := enqueue_many(jobs);
        errors := array_fill(null::text, array[jsonb_array_length(jobs)]);
        held := array_fill(false, array[jsonb_array_length(jobs)]);
        return;
    exception when others then
        if left(sqlstate, 2) not in ('TX', '22', '23', '55') and sqlstate <> '40P01' then
            raise;
        end if;
    end;
    ids := '{}';
    errors := '{}';
    held := '{}';
    for this in select * from jsonb_array_elements(jobs) loop
        begin
            ids := ids || enqueue_many(jsonb_build_array(this));
            errors := errors || null::text;
            held := held || false;
        exception when others then
            if left(sqlstate, 2) not in ('TX', '22', '23', '55') and sqlstate <> '40P01' then
                raise;
            end if;
            ids := ids || null::bigint;
            held := held || (left(sqlstate, 2) in ('55', '40'));
            errors := errors || case when left(sqlstate, 2) in ('55', '40') then 'an open transaction holds its unique key' else sqlerrm end;
        end;
    end loop;
end $$;
