-- Grants open credit: so many jobs may be enqueued as assigned to this run of a node, which listens on the
-- channel of its incarnation. 0 withdraws what is left. Credit that another node has granted stays while there
-- is some left and that node is alive.
create or replace function txqueue.grant_credit(its_incarnation integer, jobs integer) returns void
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    holder constant integer := pg_sequence_last_value('open_credit') >> 20;
begin
    -- A limit that older code sets during an upgrade, or that a replica has without the sequence, is noted here.
    if not has_limits() and exists (select from control) then
        perform setval('has_limits', 1);
    end if;
    if holder = its_incarnation or jobs > 0 and (not has_open_credit() or not exists (
           select from node_info as node
            where node.incarnation = holder and node.state = 'alive' and node.heartbeat_at > clock_timestamp() - node.lease)) then
        perform setval('open_credit', (its_incarnation::bigint << 20) + 524288 - greatest(least(jobs, 524288), 0));
    end if;
end $$;
