-- Returns which rows locked in one ready lane fit: in rank order up to the room there is and a sum of payload
-- bytes, none heavier than the largest room of one worker. A job heavier than capacity counts as capacity.
-- The first job fits if it fits a worker, even if its payload is large or it is heavier than the part of the
-- room for this step. One function per lane.
create or replace function txqueue.fit_capacity_0(
    locked tid[], room integer, part integer, largest integer, capacity integer, octets_limit bigint)
returns tid[]
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
#variable_conflict use_column
begin
    return (
        select array_agg(tid order by place)
          from (select ctid as tid,
                       row_number() over running as place,
                       sum(least(weight, capacity)) over running as total,
                       max(least(weight, capacity)) over running as heaviest,
                       sum(payload_octets(payload) + coalesce(octet_length(options::text), 0)) over running as octets
                  from (select ctid, * from job_ready_0 where ctid = any (locked) offset 0) as mine -- as in assign()
                window running as (order by rank, job_id)) as numbered
         where total <= room and heaviest <= largest and ((total <= part and octets <= octets_limit) or place = 1));
end $$;
