-- Keeps the lanes short: moves on to the next lane, truncates drained ones, those with most dead rows first,
-- and moves the few stragglers of a lane so that it can drain. Truncation frees space that vacuum cannot free
-- while a transaction holds an old snapshot.
--
-- Truncation writes catalog rows, which become dead rows too: within a second of the last truncation only a
-- lane of 32 times the size is worth it. A ready lane that is no longer current is truncated even if it is
-- small, because claims read its dead rows, and it is not free until they are removed.
--
-- It waits very briefly for a lane in use, because claims use theirs nearly all the time, but not for a
-- transaction that held the lane during the previous call: the caller passes the holders returned then.
-- Returns what was done, and the transactions that blocked more.
create or replace function txqueue.rotate(
    held text[] default '{}', least_bytes bigint default 262144, at_most integer default 2,
    out did text[], out holders text[])
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
set enable_seqscan = off
as $$
declare
    now_ms   bigint := extract(epoch from clock_timestamp()) * 1000;
    current  smallint;
    users    text[];
    rows     integer;
    -- A lane with more rows keeps them.
    few      constant integer := 500;
    is_short boolean;
    -- A lane whose jobs were moved stays locked to the end, so after that it waits for no other lane.
    has_moved boolean := false;
    this     record;
begin
    did := '{}';
    holders := '{}';
    if not try_duty('rotate') then
        return;
    end if;
    if now_ms - (select last_value from rotated) between 0 and 999 then
        least_bytes := 32 * least_bytes;
    end if;
    current := next_lane(least_bytes);
    is_short := not exists (select from free_lanes(current, least_bytes));
    for this in
        select * from lanes()
         where case when kind = 'assigned' then bytes >= least_bytes else bytes >= greatest(1, least_bytes / 8) and lane <> current end
         order by bytes desc
    loop
        exit when cardinality(did) >= at_most;
        rows := count_lane_rows(this.leaf, few + 1);
        if rows = 0 then
            users := lane_holders(this.leaf);
            if not users && held and truncate_if_empty(this.leaf) then
                did := did || ('truncated ' || this.leaf);
                perform setval('rotated', now_ms);
            else
                holders := holders || users;
                exit when has_moved;
            end if;
        elsif rows <= few and this.lane <> current and (is_short or this.bytes >= 4 * least_bytes) then
            users := lane_holders(this.leaf);
            if not users && held and move_stragglers(this.kind, this.lane, current, few) > 0 then
                did := did || ('moved on ' || this.leaf);
                has_moved := true;
            else
                holders := holders || users;
                exit when has_moved;
            end if;
        end if;
    end loop;
end $$;
