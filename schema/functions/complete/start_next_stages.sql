-- Moves assigned jobs to their next stages, for settle(). Returns the jobs for which settle() has more to do;
-- a refused stage fails its job.
create or replace function txqueue.start_next_stages(
    its_incarnation integer, outcomes jsonb, out settled bigint[], out groups text[], out failed bigint[])
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    said record;
    this job;
begin
    settled := '{}';
    groups := '{}';
    failed := '{}';
    for said in
        select * from jsonb_to_recordset(outcomes) as each (
            job_id bigint, assignment bigint, outcome text, error text, unstarted boolean, stage jsonb, progress jsonb)
         where outcome = 'next'
    loop
        delete from job_assigned where job_id = said.job_id and assignment = said.assignment
           and incarnation = its_incarnation returning * into this;
        continue when not found;
        groups := groups || this."group";
        this.error := coalesce(said.error, this.error);
        this.fingerprint := null;
        this.failed_at := null;
        this.waiting_for := null;
        this.progress := coalesce(said.progress, this.progress);
        this.handed := null;
        this.counted := null;
        if said.unstarted is not true then
            this.attempt := least(this.attempt + 1, 32767);
        end if;
        if this.options ? 'steps' then
            -- The names of steps are those of one stage.
            delete from group_hold where job_id = this.job_id;
            delete from job_step where job_id = this.job_id;
        end if;
        this := make_next_stage(this, said.stage);
        insert into job values (this.*);
        settled := settled || this.job_id;
        if this.followed is not null and this.state = 'failed' then
            failed := failed || this.job_id;
        end if;
    end loop;
end $$;
