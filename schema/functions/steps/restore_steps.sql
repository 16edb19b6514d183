-- Returns a job without the steps that older code has put into its row, which become steps of it again.
create or replace function txqueue.restore_steps(this job) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    insert into job_step (job_id, name, kind, result, error, signal, child, child_type, until, began_at, ended_at)
    select this.job_id, name, kind, step -> 'result', error, signal, child, child_type, until, began_at, ended_at
      from jsonb_array_elements(this.steps) with ordinality as each (step, place),
           jsonb_to_record(step) as its (name text, kind text, error text, signal text, child bigint, child_type text, until timestamptz,
                                         began_at timestamptz, ended_at timestamptz)
     order by place;
    this.steps := null;
    -- The end of a job that is done deletes its signals, if it is marked.
    if has_signals() and exists (select from job_signal where job_signal.job_id = this.job_id) then
        this.followed := 1;
    end if;
    return this;
end $$;
