-- Charges jobs to a token bucket; the caller holds the key's lock.
create or replace function txqueue.charge_bucket(this control, jobs integer) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    -- As in bucket_level().
    rate    constant double precision := greatest(this.rate, 1e-6);
    now_us  bigint := extract(epoch from clock_timestamp()) * 1e6;
    most_us bigint := now_us + (this.burst + 1) * 1e6 / rate;
begin
    -- A value beyond all that can have been taken counts as paid, as in bucket_level().
    execute format('select setval(''bucket_%1$s'', (case when last_value > $3 then $1 else greatest(last_value, $1) end + $2)::bigint)
                      from bucket_%1$s', this.control_id)
      using now_us, jobs * 1e6 / rate, most_us;
end $$;
