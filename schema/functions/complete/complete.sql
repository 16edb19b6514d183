-- Completes jobs: one element per assignment, its lane, its job numbers as the text of a bigint array, and
-- the results, if any, as the text of an object by number. Rows that have another assignment by now are not
-- touched. Returns how many jobs it completed, and whether other jobs may have become ready.
create or replace function txqueue.complete(
    its_incarnation integer, lanes smallint[], assignments bigint[], ids text[], results text[] default null,
    out total integer, out freed boolean)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
as $$
declare
    remaining integer;
    moved     integer;
    keys      text[];
    groups    text[];
    limited   integer;
    ended     bigint[];
    followed  bigint[] := '{}';
    lane      integer;
begin
    total := 0;
    freed := false;
    for each in 1 .. cardinality(lanes) loop
        remaining := coalesce(cardinality(ids[each]::bigint[]), 0);
        -- Rotation may have moved a long-running job to another lane, and may move it again during this
        -- search.
        foreach lane in array array[lanes[each]] || '{0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7}'::smallint[] loop
            exit when remaining = 0;
            -- Ignore numbers that are not lanes.
            continue when (lane between 0 and 7) is not true;
            case lane
                when 0 then select * into moved, keys, limited, ended
                    from complete_in_0(its_incarnation, assignments[each], ids[each]::bigint[], results[each]::jsonb);
            end case;
            remaining := remaining - moved;
            total := total + moved;
            groups := groups || keys;
            followed := followed || coalesce(ended, '{}');
            freed := freed or limited > 0;
        end loop;
    end loop;
    if followed <> '{}' then
        freed := propagate_ends(followed, 'done') or freed;
    end if;
    if has_waiting_clients() then
        perform notify_ended_jobs(translate(array_to_string(ids, ','), '{}', ''));
    end if;
    if groups is not null then
        perform free_groups(groups);
        freed := true;
    end if;
end $$;
