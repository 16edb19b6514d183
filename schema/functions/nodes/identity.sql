-- The identity of this queue: a client can join only a node of the same queue.
create or replace function txqueue.identity() returns uuid
language sql stable security definer
set search_path = txqueue, pg_temp
set jit = off
as $$ select identity from setting $$;
