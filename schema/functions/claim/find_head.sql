-- The first ready job that a turn may take of the lane and queue of a head, from that head on: the head itself,
-- if it was left, or the next one. Null if there is none. Only next_job() calls it; see find_heads().
create or replace function txqueue.find_head(
    turn txqueue.claim_turn, head txqueue.ready_head, work_types text[]) returns txqueue.ready_head
language plpgsql volatile
as $$
#variable_conflict use_column
declare
    following txqueue.ready_head;
begin
    if turn.is_reserve then
        select ready.lane, ready.queue, ready.rank, ready.job_id into following.lane, following.queue, following.rank, following.job_id
          from txqueue.job_ready as ready
         where ready.lane = head.lane and ready.queue = head.queue and ready.priority >= 7 and ready.work_type = any (work_types)
           and (ready.tenant is null or txqueue.is_unlimited_tenant(ready.tenant))
           and (ready.options -> 'unread' ?| work_types) is not true
           and (ready.rank, ready.job_id) >= (head.rank, head.job_id)
         order by ready.rank, ready.job_id limit 1;
    elsif turn.tenant is not null then
        select ready.lane, ready.queue, ready.rank, ready.job_id into following.lane, following.queue, following.rank, following.job_id
          from txqueue.job_ready as ready
         where ready.lane = head.lane and ready.queue = head.queue and ready.tenant = turn.tenant and ready.work_type = any (work_types)
           and (ready.options -> 'unread' ?| work_types) is not true
           and (ready.rank, ready.job_id) >= (head.rank, head.job_id)
         order by ready.rank, ready.job_id limit 1;
    else
        select ready.lane, ready.queue, ready.rank, ready.job_id into following.lane, following.queue, following.rank, following.job_id
          from txqueue.job_ready as ready
         where ready.lane = head.lane and ready.queue = head.queue and ready.tenant is null and ready.work_type = any (work_types)
           and (ready.options -> 'unread' ?| work_types) is not true
           and (ready.rank, ready.job_id) >= (head.rank, head.job_id)
         order by ready.rank, ready.job_id limit 1;
    end if;
    return following;
end $$;
