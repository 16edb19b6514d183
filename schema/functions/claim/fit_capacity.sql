-- Returns which rows locked in one ready lane fit: in rank order up to free_weight and a sum of payload
-- bytes, none heavier than the largest room of one worker. A job heavier than capacity counts as capacity.
-- The first job fits if it fits a worker, even if its payload is large or it is heavier than the part of
-- free_weight for this step.
create or replace function txqueue.fit_capacity(
    its_lane smallint, locked tid[], free_weight integer, part integer, largest integer, capacity integer, octets_limit bigint)
returns tid[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    taken tid[];
begin
    execute format('select array_agg(tid order by place) from (
            select ctid as tid,
                   row_number() over running as place,
                   sum(least(weight, $2)) over running as total,
                   max(least(weight, $2)) over running as heaviest,
                   sum(payload_octets(payload) + coalesce(octet_length(options::text), 0)) over running as octets
              from job_ready_%s where ctid = any ($1)
            window running as (order by rank, job_id)) as numbered
          where total <= $3 and heaviest <= $4 and ((total <= $6 and octets <= $5) or place = 1)', its_lane)
       into taken using locked, capacity, free_weight, largest, octets_limit, part;
    return taken;
end $$;
