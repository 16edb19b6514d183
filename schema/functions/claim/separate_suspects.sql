-- Separates suspects from other jobs, all given in rank order. alone are those for a process without other
-- jobs: the first ten suspects, or the first one if it was running when three processes died. rest are the
-- others. One worker does not get both: jobs that rank before the suspects go first, and is_cut says that
-- jobs were left.
create or replace function txqueue.separate_suspects(
    tids tid[], suspects tid[], gravest tid[], workers integer, out alone tid[], out rest tid[], out is_cut boolean)
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    first bigint;
begin
    select array_agg(tid order by place), min(place) into alone, first
      from unnest(tids) with ordinality as each (tid, place) where tid = any (suspects);
    is_cut := alone is not null and workers < 2;
    if is_cut then
        rest := case when first > 1 then tids[1 : first - 1] end;
    else
        rest := array(select tid from unnest(tids) with ordinality as each (tid, place) where tid <> all (suspects) order by place);
    end if;
    alone := case
        when is_cut and first > 1 then null
        when alone[1] = any (gravest) then alone[1 : 1]
        else array(select tid from unnest(alone[1 : 10]) with ordinality as each (tid, place)
                    where (tid = any (gravest)) is not true order by place) end;
    alone := nullif(alone, '{}');
end $$;
