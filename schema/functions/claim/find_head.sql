-- The head of the ready jobs of one turn: the lane and queue of the smallest rank from a position on, and up to
-- which rank that lane may be read before another lane's turn. Null if there are no such jobs.
--
-- One statement for each kind of turn, because each has its own partial index: with a union of the three, a
-- claim that found nothing cost 1.42 times as much. Only next_job() calls it, whose settings pin the plans
-- and the search path; settings of its own would cost more than the call.
create or replace function txqueue.find_head(
    turn txqueue.claim_turn, queues text[], work_types text[], passed smallint[], from_rank timestamptz, from_job bigint)
returns txqueue.ready_head
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    head txqueue.ready_head;
begin
    if turn.is_reserve then
        select each.lane, first.queue, first.rank, first.job_id, lead(first.rank) over following, lead(first.job_id) over following
          into head
          from unnest(queues) as wanted (queue), unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane),
               lateral (select ready.queue, ready.rank, ready.job_id from txqueue.job_ready as ready
                         where ready.lane = each.lane and ready.queue = wanted.queue and ready.priority >= 7
                           and ready.work_type = any (work_types)
                         order by ready.rank, ready.job_id limit 1) as first
         where each.lane <> all (passed)
        window following as (order by first.rank, first.job_id)
         order by first.rank, first.job_id limit 1;
    elsif turn.tenant is not null then
        select each.lane, first.queue, first.rank, first.job_id, lead(first.rank) over following, lead(first.job_id) over following
          into head
          from unnest(queues) as wanted (queue), unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane),
               lateral (select ready.queue, ready.rank, ready.job_id from txqueue.job_ready as ready
                         where ready.lane = each.lane and ready.queue = wanted.queue and ready.tenant = turn.tenant
                           and ready.work_type = any (work_types)
                         order by ready.rank, ready.job_id limit 1) as first
         where each.lane <> all (passed)
        window following as (order by first.rank, first.job_id)
         order by first.rank, first.job_id limit 1;
    else
        select each.lane, first.queue, first.rank, first.job_id, lead(first.rank) over following, lead(first.job_id) over following
          into head
          from unnest(queues) as wanted (queue), unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane),
               lateral (select ready.queue, ready.rank, ready.job_id from txqueue.job_ready as ready
                         where ready.lane = each.lane and ready.queue = wanted.queue and ready.tenant is null
                           and ready.work_type = any (work_types) and (ready.rank, ready.job_id) >= (from_rank, from_job)
                         order by ready.rank, ready.job_id limit 1) as first
         where each.lane <> all (passed)
        window following as (order by first.rank, first.job_id)
         order by first.rank, first.job_id limit 1;
    end if;
    return head;
end $$;
