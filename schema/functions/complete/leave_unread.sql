-- Leaves jobs whose payload a worker could not read to other nodes, for settle(); no attempt is spent. Such a job
-- is ready for nodes with another version of its type, and waits while there is none; a version that has tried
-- before tries again later. It fails once its time is over, which counts from its first reader. Returns the jobs
-- for which settle() has more to do.
create or replace function txqueue.leave_unread(
    its_incarnation integer, outcomes jsonb, out settled bigint[], out groups text[], out failed bigint[])
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set jit = off
as $$
declare
    said     record;
    this     job;
    first    unread_job;
    is_again boolean;
    readied  integer := 0;
begin
    settled := '{}';
    groups := '{}';
    failed := '{}';
    for said in
        select * from jsonb_to_recordset(outcomes) as each (
            job_id bigint, assignment bigint, outcome text, error text, version text)
         where outcome = 'unread'
    loop
        delete from job_assigned where job_id = said.job_id and assignment = said.assignment
           and incarnation = its_incarnation returning * into this;
        continue when not found;
        insert into unread_job as known (job_id, since, until)
        select this.job_id, now, now + make_interval(secs => coalesce(
                   (select (report ->> 'unreadable_for')::double precision from node_info where incarnation = its_incarnation), 3600))
          from clock_timestamp() as now
        -- A job that starts over, as a retry or a new stage, has all its time again.
        on conflict (job_id) do update set checked_at = clock_timestamp(),
           since = case when this.options ? 'unread' then known.since else excluded.since end,
           until = case when this.options ? 'unread' then known.until else excluded.until end
        returning * into first;
        this.error := said.error;
        is_again := coalesce(this.options -> 'unread' ? said.version, false);
        this := with_unread(this, said.version);
        if first.until <= clock_timestamp()
           and (is_again or not has_reader(this.work_type, this.queue, this.options -> 'unread')) then
            failed := failed || case when this.followed is not null then this.job_id end;
            this := fail_unread(this);
        else
            this := return_unread(this, case when is_again then least(60, 1 + extract(epoch from clock_timestamp() - first.since)) end);
            readied := readied + (this.state = 'ready')::integer;
        end if;
        insert into job values (this.*);
        settled := settled || this.job_id;
        groups := groups || this."group";
    end loop;
    failed := array_remove(failed, null);
    if readied > 0 then
        perform wake_masters(readied);
    end if;
end $$;
