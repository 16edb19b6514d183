-- Heads in rank order. Only next_job() calls it.
create or replace function txqueue.in_order(heads txqueue.ready_head[]) returns txqueue.ready_head[]
language plpgsql immutable
as $$
begin
    return case when cardinality(heads) > 1 then
               array(select each from unnest(heads) as each order by each.rank, each.job_id)
           else heads end;
end $$;
