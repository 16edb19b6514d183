-- Notifies a run of a node on its own channel, by which the node tests that notifications arrive; returns what
-- listen_to_run() does, which repairs a lost channel.
create or replace function txqueue.probe_run(its_incarnation integer) returns text
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    its_channel constant text := listen_to_run(its_incarnation);
begin
    if its_channel is not null then
        perform pg_notify(its_channel, 'probe');
    end if;
    return its_channel;
end $$;
