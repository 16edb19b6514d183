-- What a claim may look at: the room of the node (0 if it is not alive) and its capacity; its queues, of many only those
-- with ready jobs, and their limits, if
-- there are any; the turns that their jobs take; what ends of jobs can make free if is_narrow (see attainable_room()); and
-- the seconds after which a limit allows more. Only next_job() calls it, whose settings pin the plans and the search path.
create or replace function txqueue.open_claim(
    its_incarnation integer, queues text[], free_weight integer, ahead integer, after_tenant text,
    from_rank timestamptz, from_job bigint) returns txqueue.opened_claim
language plpgsql volatile
as $$
declare
    its    txqueue.opened_claim;
    report jsonb;
    opened record;
begin
    select me.capacity, me.report into its.capacity, report
      from txqueue.node_info as me where me.incarnation = its_incarnation and me.state = 'alive';
    its.room := case when found then free_weight else 0 end;
    its.is_limited := false;
    if its.room > 0 and txqueue.has_limits() then
        -- Limits of groups are those of admit_groups().
        its.is_limited := exists (select from txqueue.control where kind = 'tenant')
                       or exists (select from txqueue.control where kind = 'queue' and key = any (queues));
    end if;
    its.queues := case when cardinality(queues) > 1000 then txqueue.ready_queues(queues, from_rank, from_job) else queues end;
    its.turns := array[row(null, null, false)::txqueue.claim_turn];
    its.is_narrow := its.room > 0 and its.room - ahead < its.capacity and (its.is_limited or coalesce(report -> 'left', '{}') <> '{}');
    if its.is_narrow then
        select free.largest, free.total into its.largest, its.total from txqueue.attainable_room(report, its.capacity) as free;
        its.is_narrow := its.largest is not null or its.total is not null;
    end if;
    if its.is_limited then
        opened := txqueue.open_queues(its.queues, its.capacity);
        its.limits := opened.open;
        its.opens_in := opened.opens_in;
        its.queues := array(select each.queue from unnest(its.limits) as each);
        its.turns := its.turns || array(select row(null, null, true)::txqueue.claim_turn from unnest(its.limits) as each where each.kept > 0 limit 1);
    end if;
    if its.room > 0 and coalesce(pg_sequence_last_value('txqueue.has_tenants'), 0) = 1 then
        opened := txqueue.tenant_turns(its.queues, its.room, after_tenant);
        its.turns := opened.turns || its.turns;
        its.opens_in := least(its.opens_in, opened.opens_in);
        its.last_tenant := opened.last;
    end if;
    return its;
end $$;
