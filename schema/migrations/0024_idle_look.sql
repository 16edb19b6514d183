-- serves: 7
-- A heartbeat also tells an idle node what there is to do, so that the node polls for less.

-- It returns more columns than before.
drop function if exists txqueue.heartbeat(integer, double precision, jsonb);
