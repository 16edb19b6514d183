-- Makes due jobs ready, those first that were due first. A caller that has promoted up to a moment
-- passes it as since, so that the dead rows before it are not read again; null looks at all.
create or replace function @schema@.promote(since timestamptz, at_most integer) returns integer
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    to_lane   smallint := current_lane();
    promoted  integer;
begin
    with due as materialized (
        select ctid as tid from job_waiting
         where waiting_for in ('time', 'rate') and not_before <= clock_timestamp() and not_before >= coalesce(since, '-infinity')
         order by not_before limit at_most for update skip locked
    ), gone as (
        delete from job_waiting where ctid = any (array(select tid from due)) returning *
    )
    insert into job_ready (job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
                           lane, state, work_type, queue, "group", tenant, options, payload, error, followed)
    select job_id, rank, not_before, not_after, enqueued_at, weight, priority, attempt, deaths,
           to_lane, 'ready', work_type, queue, "group", tenant, options, payload, error, followed
      from gone;
    get diagnostics promoted = row_count;
    return promoted;
end $$;
