-- Rotation of lanes: what programs call comes first, then its steps and what they use.

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
        continue when rows > few or rows > 0 and (this.lane = current or not is_short and this.bytes < 4 * least_bytes);
        -- The transactions that use the lane now, each as the lane's name and the transaction's.
        users := array(select format('%s %s', this.leaf, virtualtransaction) from pg_locks
                        where locktype = 'relation' and relation = this.leaf::regclass and granted and pid <> pg_backend_pid()
                          and database = (select oid from pg_database where datname = current_database()));
        if users && held or not (case rows when 0 then truncate_if_empty(this.leaf)
                                           else move_stragglers(this.kind, this.lane, current, few) > 0 end) then
            holders := holders || users;
            exit when has_moved;
        elsif rows = 0 then
            did := did || ('truncated ' || this.leaf);
            perform setval('rotated', now_ms);
        else
            did := did || ('moved on ' || this.leaf);
            has_moved := true;
        end if;
    end loop;
end $$;

-- Moves on to the next free lane once the current one has a minimal size, if there is a free one. Jobs may be
-- enqueued as assigned: if only the assigned table of the lane has grown, that of the next lane must be
-- small. Returns the current lane.
create or replace function txqueue.next_lane(least_bytes bigint) returns smallint
language plpgsql volatile
as $$
declare
    current  smallint := current_lane();
    is_long  boolean;
    is_used  boolean;
    free     smallint;
begin
    select bool_or(bytes >= least_bytes) filter (where kind = 'ready'), bool_or(bytes >= least_bytes)
      into is_long, is_used from lanes() where lane = current;
    if is_used then
        select each.lane into free from free_lanes(current, least_bytes) as each
         where is_long or assigned_bytes < least_bytes
         order by (each.lane - current + 8) % 8 limit 1;
    end if;
    if free is not null then
        perform setval('lane', free);
        current := free;
    end if;
    return current;
end $$;

-- The tables of ready and assigned jobs, and their sizes.
create or replace function txqueue.lanes() returns table (leaf text, kind text, lane smallint, bytes bigint)
language sql volatile
as $$
    select format('job_%s_%s', kind, lane), kind, lane::smallint, pg_relation_size(format('job_%s_%s', kind, lane)::regclass)
      from unnest(array['ready', 'assigned']) as kind, generate_series(0, 7) as lane
$$;

-- The lanes besides the current one whose ready tables are nearly empty, even of dead rows.
create or replace function txqueue.free_lanes(current smallint, least_bytes bigint)
returns table (lane smallint, assigned_bytes bigint)
language sql volatile
as $$
    select each.lane, sum(bytes) filter (where kind = 'assigned')
      from lanes() as each where each.lane <> current
     group by each.lane
    having sum(bytes) filter (where kind = 'ready') < greatest(1, least_bytes / 8)
$$;

-- The number of rows of a lane, up to a maximum. Jobs leave a lane from its front, which may have hundreds of
-- thousands of dead rows, so its last pages are read first.
create or replace function txqueue.count_lane_rows(leaf text, most integer) returns integer
language plpgsql volatile
as $$
declare
    pages    constant bigint := pg_relation_size(leaf::regclass) / current_setting('block_size')::integer;
    near_end constant tid := format('(%s,0)', greatest(0, pages - 64));
    rows     integer;
begin
    execute format('select count(*) from (select from %I where ctid >= $1 limit $2) as rows', leaf) into rows using near_end, most;
    if rows < most then
        execute format('select count(*) from (select from %I limit $1) as rows', leaf) into rows using most;
    end if;
    return rows;
end $$;

-- Truncates one lane if it is empty, under a lock with a very short timeout. Never in a transaction that
-- cannot see rows committed since it began, and never while a pg_dump of this database has its snapshot:
-- pg_dump locks the tables one after the other, and would find the jobs of its snapshot neither in this lane
-- nor, as later commits, in their new place.
create or replace function txqueue.truncate_if_empty(leaf text) returns boolean
language plpgsql volatile
set enable_seqscan = off
set lock_timeout = '50ms'
as $$
declare
    is_empty boolean;
begin
    if current_setting('transaction_isolation') <> 'read committed' then
        return false;
    end if;
    if exists (select from pg_stat_activity
                where application_name = 'pg_dump' and backend_xmin is not null
                  and datid = (select oid from pg_database where datname = current_database())) then
        return false;
    end if;
    execute format('lock table %I in access exclusive mode', leaf);
    execute format('select not exists (select from %I)', leaf) into is_empty;
    if is_empty then
        execute format('truncate %I', leaf);
    end if;
    return is_empty;
exception when lock_not_available then
    return false;
end $$;

-- Moves the last few jobs of a lane to the current one; leaves the lane unchanged while it has more than a
-- few. It locks the lane against all writers, with a very short timeout: otherwise a session that looked for
-- a moving job in its old place would wait, and not find it. Returns how many.
create or replace function txqueue.move_stragglers(kind text, from_lane smallint, to_lane smallint, few integer)
returns integer
language plpgsql volatile
set enable_seqscan = off
set lock_timeout = '50ms'
as $$
declare
    leaf  text := format('job_%s_%s', kind, from_lane);
    moved integer := 0;
    this  job;
begin
    if count_lane_rows(leaf, few + 1) > few then
        return 0;
    end if;
    execute format('lock table %I in exclusive mode', leaf);
    for this in execute format('delete from %I returning *', leaf) loop
        this.lane := to_lane;
        if not (has_large_values(this) and fail_if_damaged(this)) then
            insert into job values (this.*);
        end if;
        moved := moved + 1;
    end loop;
    return moved;
exception when lock_not_available then
    return 0;
end $$;
