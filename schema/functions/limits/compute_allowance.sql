-- How many jobs a claim may take from a limited queue or tenant: null for any number. The claim holds the
-- key's lock from now on; while another claim holds it, the allowance is 0. opens_in then has the seconds
-- after which to retry, if only time has to pass.
create or replace function txqueue.compute_allowance(this control, out jobs integer, out opens_in double precision)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    contended constant double precision := 0.005;
    running   bigint;
begin
    if this.is_paused then
        jobs := 0;
        return;
    end if;
    if this.concurrency is null and this.rate is null then
        return;
    end if;
    if try_keys(array[key_of(this.kind || ' ' || this.key)]) = '{}' then
        jobs := 0;
        opens_in := contended;
        return;
    end if;
    if this.concurrency is not null then
        if this.kind = 'queue' then
            select count(*) into running from job_assigned where queue = this.key and counted is not null;
        else
            select count(*) into running from job_assigned where tenant = this.key;
        end if;
        jobs := greatest(0, this.concurrency - running);
    end if;
    if this.rate is not null and coalesce(jobs, 1) > 0 then
        select least(compute_allowance.jobs, bucket.jobs), bucket.opens_in into jobs, opens_in from bucket_level(this) as bucket;
    end if;
end $$;
