-- Lets the silence of nodes whose last heartbeat is in the future, as the clock was set back since, count from now:
-- a dead one would be rescued only when the clock has caught up. Waits for no lock.
create or replace function txqueue.forget_future_beats() returns void
language sql volatile
set search_path = txqueue, pg_temp
as $$
    update node_info
       set heartbeat_at = least(heartbeat_at, clock_timestamp()), leased_at = least(leased_at, clock_timestamp()),
           vouched_at = least(vouched_at, clock_timestamp())
     where incarnation in (
        select incarnation from node_info
         where state in ('alive', 'draining')
           and greatest(heartbeat_at, leased_at, vouched_at) > clock_timestamp() + interval '1 second'
           for update skip locked)
$$;
