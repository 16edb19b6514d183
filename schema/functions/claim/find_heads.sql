-- The first ready job of each lane and queue that a turn may take, from a position on, in rank order up to a
-- number; null if there are none.
--
-- One statement for each kind of turn, because each has its own partial index: with a union of the three, a
-- claim that found nothing cost 1.42 times as much. Only next_job() calls it, whose settings pin the plans
-- and the search path; settings of its own would cost more than the call.
create or replace function txqueue.find_heads(
    turn txqueue.claim_turn, queues text[], work_types text[], from_rank timestamptz, from_job bigint, at_most integer)
returns txqueue.ready_head[]
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    lanes smallint[] := case when cardinality(queues) > 8 then txqueue.lanes_in_use() else '{0,1,2,3,4,5,6,7}' end;
    heads txqueue.ready_head[];
begin
    if turn.is_reserve then
        select array_agg(row(first.lane, first.queue, first.rank, first.job_id, null, null)::txqueue.ready_head
                         order by first.rank, first.job_id)
          into heads
          from (select each.lane, head.queue, head.rank, head.job_id
                  from unnest(queues) as wanted (queue), unnest(lanes) as each (lane),
                       lateral (select ready.queue, ready.rank, ready.job_id from txqueue.job_ready as ready
                                 where ready.lane = each.lane and ready.queue = wanted.queue and ready.priority >= 7
                                   and ready.work_type = any (work_types) and (ready.options -> 'unread' ?| work_types) is not true
                                   and (ready.tenant is null or txqueue.is_unlimited_tenant(ready.tenant))
                                 order by ready.rank, ready.job_id limit 1) as head
                 order by head.rank, head.job_id limit at_most) as first;
    elsif turn.tenant is not null then
        select array_agg(row(first.lane, first.queue, first.rank, first.job_id, null, null)::txqueue.ready_head
                         order by first.rank, first.job_id)
          into heads
          from (select each.lane, head.queue, head.rank, head.job_id
                  from unnest(queues) as wanted (queue), unnest(lanes) as each (lane),
                       lateral (select ready.queue, ready.rank, ready.job_id from txqueue.job_ready as ready
                                 where ready.lane = each.lane and ready.queue = wanted.queue and ready.tenant = turn.tenant
                                   and ready.work_type = any (work_types) and (ready.options -> 'unread' ?| work_types) is not true
                                 order by ready.rank, ready.job_id limit 1) as head
                 order by head.rank, head.job_id limit at_most) as first;
    else
        select array_agg(row(first.lane, first.queue, first.rank, first.job_id, null, null)::txqueue.ready_head
                         order by first.rank, first.job_id)
          into heads
          from (select each.lane, head.queue, head.rank, head.job_id
                  from unnest(queues) as wanted (queue), unnest(lanes) as each (lane),
                       lateral (select ready.queue, ready.rank, ready.job_id from txqueue.job_ready as ready
                                 where ready.lane = each.lane and ready.queue = wanted.queue and ready.tenant is null
                                   and ready.work_type = any (work_types) and (ready.options -> 'unread' ?| work_types) is not true
                                       and (ready.rank, ready.job_id) >= (from_rank, from_job)
                                 order by ready.rank, ready.job_id limit 1) as head
                 order by head.rank, head.job_id limit at_most) as first;
    end if;
    return heads;
end $$;
