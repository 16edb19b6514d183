-- Moves a job that cannot be given to a worker to the failed ones, for set_aside(), which does what follows from
-- that. What cannot even be moved is dropped. Returns nothing if another session has locked or moved it.
create or replace function txqueue.fail_unreadable(
    its_state job_state, its_lane smallint, its_id bigint, fault text,
    out failed bigint, out followed bigint, out freed_group text)
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    this job;
begin
    perform from job where state = its_state and lane = its_lane and job_id = its_id for update skip locked;
    if not found then
        return;
    end if;
    begin
        perform set_config('queue_rows.are_moved', 'on', true);
        delete from job where state = its_state and lane = its_lane and job_id = its_id returning * into this;
    exception when internal_error or system_error then
        this := leave_remnant(its_state, its_lane, its_id);
    end;
    this.state := 'failed';
    this.waiting_for := null;
    this.finished_at := clock_timestamp();
    this.failed_at := this.finished_at;
    this.error := format('it cannot be given to a worker: %s', fault);
    this.fingerprint := fingerprint(this.error);
    begin
        insert into job values (this.*);
    exception when internal_error or system_error then
        this := without_values(this, fault);
        insert into job values (this.*);
    end;
    delete from group_hold where job_id = its_id;
    failed := its_id;
    followed := case when this.followed is not null then its_id end;
    freed_group := this."group";
end $$;
