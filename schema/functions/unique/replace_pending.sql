-- Returns a pending job with the data of a newer one with its unique key, under the old number and with all
-- attempts, as it has tried nothing with the new data.
create or replace function txqueue.replace_pending(old job, new job, mode text) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    new.job_id := old.job_id;
    new.enqueued_at := old.enqueued_at;
    new.deaths := old.deaths;
    new.error := old.error;
    if mode = 'again' then
        new.rank := least(new.rank, old.rank);
        -- A job that has failed still waits for its retry.
        if new.not_before > old.not_before or old.attempt > 0 or old.failed_at is not null then
            new.not_before := old.not_before;
            new.fingerprint := old.fingerprint;
            new.failed_at := old.failed_at;
        end if;
    end if;
    if old.waiting_for = 'unique' then
        new.state := 'waiting';
        new.waiting_for := 'unique';
        return new;
    end if;
    return make_eligible(new);
end $$;
