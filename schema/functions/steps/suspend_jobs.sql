-- Moves assigned jobs whose runs have ended at a wait to the waiting ones, for settle(): until a signal comes, a moment,
-- or the ends of their children. Each outcome has waits: the name and kind of each, and the first time its signal, the
-- seconds until it ends by itself, its child, and hold_group if the job keeps its place in its group meanwhile, unless
-- it waits for a job of that group, which could then never start. No attempt is spent. Returns the jobs for which settle() has more to do, and
-- the first of those that can run on at once.
create or replace function txqueue.suspend_jobs(
    its_incarnation integer, outcomes jsonb, out settled bigint[], out groups text[], out limited boolean, out first txqueue.ready_head)
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    said     record;
    this     job;
    awaited  record;
    is_refused boolean;
begin
    settled := '{}';
    groups := '{}';
    limited := false;
    for said in
        select * from jsonb_to_recordset(outcomes) as each (
            job_id bigint, assignment bigint, outcome text, waits jsonb, progress jsonb)
         where outcome = 'suspended'
    loop
        delete from job_assigned where job_id = said.job_id and assignment = said.assignment
           and incarnation = its_incarnation returning * into this;
        continue when not found;
        settled := settled || this.job_id;
        groups := groups || this."group";
        limited := limited or this.counted is not null;
        -- What the present code does not await takes no signal.
        delete from job_step where job_id = this.job_id and ended_at is null and kind = 'signal'
           and name <> all (array(select each ->> 'name' from jsonb_array_elements(said.waits) as each));
        insert into job_step (job_id, name, kind, signal, annotation, child, until)
        select this.job_id, name, kind, signal, annotation, child,
               case when seconds is not null then clock_timestamp() + make_interval(secs => greatest(0, least(seconds, 3155760000))) end
          from jsonb_to_recordset(said.waits) as each (
                   name text, kind text, signal text, annotation text, child bigint, seconds double precision)
            on conflict do nothing;
        -- Two jobs that call each other at a time see it only here, once both calls are committed.
        update job_step set ended_at = clock_timestamp(),
               error = format('job %s, called by step %s, waits for the end of job %s: neither would go on', child, to_jsonb(name), job_id)
         where job_id = this.job_id and ended_at is null and child is not null and awaits_end(child, this.job_id);
        is_refused := found;
        -- With a snapshot that is newer than the lock of the job: propagate_late_ends() skips a locked job, and sees
        -- one that waits.
        select min(step.until) as until, array_agg(step.child) filter (where step.child is not null) as children,
               cardinality(signalled_jobs(array[this.job_id])) > 0 as is_signalled
          into awaited from job_step as step
         where step.job_id = this.job_id and step.ended_at is null
           and step.name = any (array(select each ->> 'name' from jsonb_array_elements(said.waits) as each));
        if this."group" is not null then
            delete from group_hold where job_id = this.job_id;
            insert into group_hold (job_id, "group")
            select this.job_id, this."group"
             where said.waits @> '[{"hold_group": true}]'
               and not exists (select from job as other where other.job_id = any (awaited.children) and other."group" = this."group"
                                  and other.state in ('waiting', 'ready', 'assigned'));
        end if;
        this.options := (coalesce(this.options, '{}') - 'no_key')
            || case when this.options ? 'due' and not this.options ? 'began'
                    then jsonb_build_object('began', coalesce(this.started_at, this.assigned_at)) else '{}' end
            || '{"steps": true}';
        this.progress := coalesce(said.progress, this.progress);
        this.deaths := 0;
        this.fingerprint := null;
        this.failed_at := null;
        this := wait_for_steps(without_assignment(this), awaited.until, awaited.children, is_refused or awaited.is_signalled);
        insert into job values (this.*);
        if this.state = 'ready' then
            first := least(first, row(null, null, this.rank, this.job_id, null, null)::ready_head);
        end if;
    end loop;
end $$;
