-- The turns of tenants in a claim: how much weight each tenant with ready jobs may take, by shares, in rounds
-- of short turns first, so that a few jobs of one tenant do not wait for many of another; jobs without a
-- tenant count as one more tenant, of share 1, and come last. The unused part of a tenant is available to the
-- next claim. Systematic sampling gives each tenant its share to within one job, and exactly its share on
-- average, however little room there is; so claims need no memory (Waldspurger and Weihl, Lottery Scheduling,
-- 1994, with less variance).
--
-- At most 32 tenants get a turn in one claim; the next claim continues after last.
create or replace function txqueue.tenant_turns(
    queues text[], room integer, after_tenant text,
    out turns txqueue.claim_turn[], out last text, out opens_in double precision)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set enable_sort = off
set jit = off
as $$
declare
    most    constant integer := 32;
    found_  text[];
    heads   timestamptz[];
    its     record;
    shares  double precision[] := '{}';
    limits  integer[] := '{}';
    chance  double precision := random();
    total   double precision;
    passed  double precision := 0;
    before  double precision;
    owed    integer[] := '{}';
    tenants text[] := '{}';
    part    integer;
    round   double precision := 32;
begin
    turns := '{}';
    select walk.tenants, walk.ranks into found_, heads from next_tenants(queues, after_tenant, most) as walk;
    if after_tenant <> '' then
        select found_ || array_agg(again.tenant order by place), heads || array_agg(again.rank order by place) into found_, heads
          from next_tenants(queues, '', most - cardinality(found_)) as walk,
               unnest(walk.tenants, walk.ranks) with ordinality as again (tenant, rank, place)
         where again.tenant collate "C" <= after_tenant;
    end if;
    if cardinality(found_) = most then
        last := found_[most];
    end if;
    -- The tenant whose jobs came last goes first in a round, as it is the one with few jobs.
    found_ := array(select each.tenant from unnest(found_, heads) as each (tenant, rank) order by each.rank desc);
    for its in select * from compute_allowances('tenant', found_) loop
        opens_in := least(opens_in, its.opens_in);
        continue when its.jobs = 0;
        limits := limits || its.jobs::integer;
        tenants := tenants || its.name;
        -- A row of an older version may have a smaller share, whose part of the room no double precision holds.
        shares := shares || greatest(coalesce(its.share, 1), 1e-6);
    end loop;
    total := (select coalesce(sum(share), 0) from unnest(shares) as share)
        + (exists (select from job_ready where queue = any (queues) and tenant is null))::integer;
    for each in 1 .. cardinality(tenants) loop
        before := floor(passed + chance);
        passed := passed + room * shares[each] / total;
        owed := owed || least(limits[each], (floor(passed + chance) - before)::integer);
    end loop;
    loop
        for each in 1 .. cardinality(tenants) loop
            part := least(owed[each], ceil(round * shares[each])::integer);
            owed[each] := owed[each] - part;
            turns := turns || row(tenants[each], part, false)::claim_turn;
        end loop;
        exit when not exists (select from unnest(owed) as rest where rest > 0);
        round := round * 1.25;
    end loop;
end $$;
