-- Completes jobs: one element per assignment, its lane, its job numbers as the text of a bigint array, and
-- the results, if any, as the text of an object by number. Rows that have another assignment by now are not
-- touched. Returns how many jobs it completed, whether other jobs may have become ready, and the first of those that
-- are known; its rank is text, as in next_job().
create or replace function txqueue.complete(
    its_incarnation integer, lanes smallint[], assignments bigint[], ids text[], results text[] default null,
    out total integer, out freed boolean, out freed_rank text, out freed_job bigint)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
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
    done      bigint[] := '{}';
    first     ready_head;
    singles   text := translate(array_to_string(ids, ' '), '{}', '');
begin
    freed := false;
    -- A trickle: jobs that were claimed one by one, in the same lane. One statement for all costs as much as one
    -- for each of two. Jobs that rotation has moved are left to the loop.
    if cardinality(lanes) > 1 and lanes[1] = all (lanes) and lanes[1] between 0 and 7
       and singles ~ '^[0-9]+( [0-9]+)*$' and cardinality(string_to_array(singles, ' ')) = cardinality(lanes) then
        case lanes[1]
            when 0 then select * into done, groups, limited, followed
                from complete_each_0(its_incarnation, assignments, string_to_array(singles, ' ')::bigint[], results);
        end case;
        followed := coalesce(followed, '{}');
        freed := limited > 0;
    end if;
    total := cardinality(done);
    for each in 1 .. case when total < cardinality(lanes) then cardinality(lanes) else 0 end loop
        continue when ids[each]::bigint[] && done;
        remaining := coalesce(cardinality(ids[each]::bigint[]), 0);
        -- Rotation may have moved a long-running job to another lane, and may move it again during this
        -- search. A job that is in none has been returned to the queue.
        lane := lanes[each];
        for search in 1 .. 16 loop
            exit when remaining = 0;
            if search > 1 or cardinality(done) > 0 or (lane between 0 and 7) is not true then
                lane := lane_of_jobs(its_incarnation, assignments[each], ids[each]::bigint[]);
            end if;
            exit when lane is null;
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
    if followed <> '{}' or groups is not null then
        first := pass_on_ends(nullif(followed, '{}'), groups);
        freed := freed or groups is not null;
    end if;
    if first.rank is not null then
        freed := true;
        freed_rank := first.rank;
        freed_job := first.job_id;
    end if;
end $$;
