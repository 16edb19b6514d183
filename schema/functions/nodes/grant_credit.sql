-- Grants open credit: so many jobs may be enqueued as assigned to this run of a node, which listens on the
-- channel of its incarnation. 0 withdraws what is left.
--
-- Credit that another node has granted stays while there is some left and that node is alive. Then the credit is
-- returned. If it is still the same when the caller passes it with the next call, that node serves other jobs
-- than those that the caller sees, and the caller's credit takes its place. Of two calls at a time one is lost:
-- then that node's jobs are claimed, and it grants credit again a moment later.
create or replace function txqueue.grant_credit(its_incarnation integer, jobs integer, unused bigint default null)
returns bigint
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    credit constant bigint := pg_sequence_last_value('open_credit');
begin
    -- A limit that older code sets during an upgrade, or that a replica has without the sequence, is noted here.
    if not has_limits() and exists (select from control) then
        perform setval('has_limits', 1);
    else
        -- The node and the jobs' clients need not wait for the disk: credit that a crash undoes is granted anew.
        perform set_config('synchronous_commit', 'off', true);
    end if;
    if credit_run(credit) is distinct from its_incarnation then
        if jobs <= 0 then
            return null;
        end if;
        if credit is distinct from unused and has_open_credit() and exists (
               select from node_info as node
                where node.incarnation = credit_run(credit) and is_reachable(node, node.lease / 2)) then
            return credit;
        end if;
    end if;
    perform setval('open_credit', (its_incarnation::bigint << 20) + 524288 - greatest(least(jobs, 524288), 0));
    return null;
end $$;
