-- Listens on the channel on which notifications bring a run of a node its jobs; returns the channel's name, or null if the
-- node has another run by now. Any role may listen to any channel and notify it: so the name cannot be guessed, and no
-- statement that others may see has it. A run keeps its channel when it connects anew, for transactions that are open then.
create or replace function txqueue.listen_to_run(its_incarnation integer) returns text
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    its_channel text := (select channel from node_channel where incarnation = its_incarnation);
begin
    if its_channel is null then
        delete from node_channel as former
         where not exists (select from node_info as node where node.incarnation = former.incarnation);
        insert into node_channel (incarnation, channel)
        select node.incarnation, gen_random_uuid() from node_info as node where node.incarnation = its_incarnation
        returning channel into its_channel;
    end if;
    if its_channel is not null then
        execute format('listen %I', its_channel);
    end if;
    return its_channel;
end $$;
