-- serves: 7
-- A heartbeat also tells an idle node what there is to do, so that the node polls for less.
-- Only functions change.

select;
