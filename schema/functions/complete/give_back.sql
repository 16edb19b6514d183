-- Returns an assigned job to the ready partition. A job that was running when its process died spends an
-- attempt; after five deaths it fails as poison.
create or replace function txqueue.give_back(this job, died boolean) returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    poison constant integer := 5;
begin
    if died then
        this.deaths := least(this.deaths + 1, 32767);
        this.attempt := least(this.attempt + (this.started_at is not null)::integer, 32767);
        if this.started_at is not null then
            this.progress := null;
            perform note_attempt(this, 'the process that ran it died');
        end if;
    end if;
    if this.deaths >= poison then
        this.state := 'failed';
        this.finished_at := clock_timestamp();
        this.error := format('poison: %s worker processes died while they held this job', this.deaths);
        this.fingerprint := fingerprint(this.error);
        this.failed_at := this.finished_at;
        delete from group_hold where job_id = this.job_id;
        -- Its poison explains the deaths of others, which are no longer suspects. Jobs with three deaths stay
        -- suspects: they run alone and end soon.
        update job_ready set deaths = 1
         where (lane, job_id) in (select lane, job_id from job_ready where queue = this.queue and deaths = 2
                                   limit 10000 for update skip locked);
    else
        this.state := 'ready';
        this := without_assignment(this);
    end if;
    insert into job values (this.*);
    if this.state = 'failed' and this.followed is not null then
        -- Not at once: the caller gives back other jobs, and children are locked in sorted order.
        perform note_late_ends(array[this.job_id]);
    end if;
end $$;
