-- Reserves the incarnation of a run of a node, for register_node(), which also gets the incarnation that has the
-- name now, 0 for none: a late registration, which its caller has given up and repeated, finds another one there
-- and is refused. At random, not from a sequence: a restored database must not give a lost run's number to
-- another run. Older code takes its numbers, below 2^30, from reserve_incarnation().
create or replace function txqueue.reserve_run(its_name text, out incarnation integer, out former integer)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    loop
        incarnation := 1073741824 + (hashtext(gen_random_uuid()::text) & 1073741823);
        exit when not exists (select from node_info as node where node.incarnation = reserve_run.incarnation);
    end loop;
    former := coalesce((select node.incarnation from node_info as node where node.name = its_name), 0);
end $$;
