-- The level of a token bucket: how many jobs may be taken now (null without a bucket), and if none, in how
-- many seconds one may. In any t seconds at most burst + rate * t jobs are taken. The sequence of the bucket
-- keeps the moment, in microseconds since 1970, by which all that was taken is paid for (the generic cell
-- rate algorithm, ITU-T I.371).
create or replace function txqueue.bucket_level(this control, out jobs integer, out opens_in double precision)
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    -- A row of an older version may have a lower rate, whose moments no bigint holds.
    rate       constant double precision := greatest(this.rate, 1e-6);
    paid_until bigint;
    ahead      double precision;
begin
    if this.rate is null then
        return;
    end if;
    paid_until := pg_sequence_last_value(format('bucket_%s', this.control_id)::regclass);
    ahead := greatest(0, paid_until / 1e6 - extract(epoch from clock_timestamp())::double precision) * rate;
    if ahead > this.burst + 1 then
        -- More than can have been taken: the clock was set back, or the rate raised.
        ahead := 0;
    end if;
    jobs := floor(this.burst - ahead);
    if jobs < 1 then
        jobs := 0;
        opens_in := (ahead - this.burst + 1) / rate;
    end if;
end $$;
