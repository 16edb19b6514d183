-- Restarts assigned jobs, such as hung ones: their runs end, without an outcome of their own, and the jobs run
-- again. A job without a group returns to the queue at once, so that its old token holds no longer; one of a group
-- returns once its node has ended its run, so that two jobs of the group do not run at a time. Each node reads at its
-- next heartbeat which runs to end. With is_counted the run spends an attempt.
--
-- Returns [[incarnation, assignment, job_id], ...] of the first and of the second, and the numbers of the other jobs:
-- those that no node holds, those whose rows an open transaction has locked, as it may be ending them, and those
-- whose rows are damaged. A job that this transaction has enqueued has no run to end: if it is assigned already, its
-- run begins with the commit, which no longer asks whether it is still meant, so that another would run beside it.
create or replace function txqueue.restart(
    ids bigint[], who text, is_counted boolean default false,
    out restarted jsonb, out requested jsonb, out refused bigint[])
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    operator constant text := coalesce(nullif(who, ''), session_user::text);
    spent    constant integer := coalesce(is_counted, false)::integer;
    this     job;
    is_new   boolean;
    returned bigint[] := '{}';
    acted    bigint[];
begin
    perform check_isolation('jobs are not restarted');
    restarted := '[]';
    requested := '[]';
    for this in
        -- It waits for no row, as it holds others.
        select * from job where job_id = any (sound_jobs(ids, '{assigned}')) and state = 'assigned' and enqueued_at <> now()
         order by job_id for update skip locked
    loop
        insert into request (incarnation, job_id, assignment, who, is_restart)
        values (this.incarnation, this.job_id, this.assignment, operator, true) on conflict do nothing;
        is_new := found;
        if this."group" is not null then
            requested := requested || jsonb_build_array(jsonb_build_array(this.incarnation, this.assignment, this.job_id));
            if is_new then
                perform note_restart(this, operator);
                update job_assigned set attempt = least(attempt + spent, 32767)
                 where job_id = this.job_id and assignment = this.assignment and spent > 0;
            end if;
        else
            restarted := restarted || jsonb_build_array(jsonb_build_array(this.incarnation, this.assignment, this.job_id));
            returned := returned || this.job_id;
            perform note_restart(this, operator);
            delete from job_assigned where job_id = this.job_id and assignment = this.assignment;
            this.attempt := least(this.attempt + spent, 32767);
            this.progress := null;
            this.state := 'ready';
            this := without_assignment(this);
            insert into job values (this.*);
        end if;
    end loop;
    acted := returned || array(select (each ->> 2)::bigint from jsonb_array_elements(requested) as each);
    refused := array(select distinct id from unnest(ids) as id where id <> all (acted) order by id);
    if returned <> '{}' then
        perform wake_masters(cardinality(returned));
    end if;
    if acted <> '{}' then
        perform note_action(who, 'restart', format_job_ids(acted), jsonb_build_object(
            'jobs', acted, 'restarted', cardinality(returned), 'requested', jsonb_array_length(requested),
            'refused', cardinality(refused)));
    end if;
end $$;
