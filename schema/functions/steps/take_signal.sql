-- Ends a step of a running job with the oldest signal of a name, and returns its value as text; null if there is none.
create or replace function txqueue.take_signal(its_job_id bigint, its_name text, its_signal text) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    taken jsonb;
begin
    with oldest as (
        select ctid as place, key, value from job_signal
         where job_id = its_job_id and name = its_signal and taken_at is null
         order by number limit 1
    ), gone as (
        delete from job_signal as sent using oldest where sent.ctid = oldest.place and oldest.key is null
    ), used as (
        -- It stays, so that a repeated key changes nothing.
        update job_signal as sent set taken_at = clock_timestamp(), taken_by = its_name from oldest where sent.ctid = oldest.place and oldest.key is not null
    )
    select coalesce(value, 'null') into taken from oldest;
    if found then
        insert into job_step (job_id, name, kind, result, signal, ended_at)
        values (its_job_id, its_name, 'signal', taken, its_signal, clock_timestamp())
            on conflict (job_id, name) do update set result = excluded.result, ended_at = excluded.ended_at;
    end if;
    return taken::text;
end $$;
