-- Truncates drained lanes, the fullest of dead rows first, and moves the few stragglers of a lane
-- on so that it can drain. Truncation frees what vacuum cannot while some transaction holds an old
-- snapshot. It never waits: a lane that somebody uses is left for the next call. Returns what it did.
create or replace function @schema@.rotate(least_bytes bigint default 1048576, at_most integer default 4) returns text[]
language plpgsql volatile security definer
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    did      text[] := '{}';
    current  smallint := current_lane();
    leaf     text;
    its_kind text;
    its_lane smallint;
    is_empty boolean;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('@schema@ rotate', 839)) then
        return did;
    end if;
    for leaf, its_kind, its_lane in
        select format('job_%s_%s', kind, lane), kind, lane
          from unnest(array['ready', 'assigned']) as kind, generate_series(0, 7) as lane
         where pg_relation_size(format('job_%s_%s', kind, lane)::regclass) >= least_bytes
           and not (kind = 'ready' and lane = current)
         order by pg_relation_size(format('job_%s_%s', kind, lane)::regclass) desc
    loop
        exit when cardinality(did) >= at_most;
        execute format('select not exists (select from %I)', leaf) into is_empty;
        if is_empty then
            if truncate_if_empty(leaf) then
                did := did || ('truncated ' || leaf);
            end if;
        elsif its_lane <> current and pg_relation_size(leaf::regclass) >= 4 * least_bytes then
            if move_stragglers(its_kind, its_lane, current, 500) > 0 then
                did := did || ('moved on ' || leaf);
            end if;
        end if;
    end loop;
    return did;
end $$;
