-- Tells this queue from every other: a client and a node that it joins must be of the same one.
create or replace function txqueue.identity() returns uuid
language sql stable security definer
set search_path = txqueue, pg_temp
as $$ select identity from setting $$;
