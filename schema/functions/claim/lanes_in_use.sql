-- The lanes whose tables of ready jobs are not empty files: that a table is costs less to see than that each of many
-- queues has no job in it. Only next_job() and its steps call it.
create or replace function txqueue.lanes_in_use() returns smallint[]
language sql volatile
as $$
    select array(select lane from unnest('{0,1,2,3,4,5,6,7}'::smallint[]) as each (lane)
                  where pg_relation_size(format('txqueue.job_ready_%s', lane)) > 0)
$$;
