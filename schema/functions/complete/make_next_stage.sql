-- Returns a job as its next stage under the same number: another work type and payload, with no attempt
-- spent. If the stage is not valid, the job is failed, so that other jobs settled with it are not affected.
create or replace function txqueue.make_next_stage(this job, stage jsonb) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    old      job := this;
    settings setting;
    known    work_type;
    its      record;
begin
    select * into strict settings from setting;
    select * into its from jsonb_to_record(stage) as given (
        work_type text, payload jsonb, queue text, priority integer, weight integer, not_before timestamptz,
        not_after timestamptz, "group" text, options jsonb, tenant text);
    select * into known from work_type where work_type.work_type = its.work_type;
    this.work_type := its.work_type;
    this.payload := its.payload;
    this.queue := coalesce(its.queue, known.queue, 'default');
    this.priority := coalesce(its.priority, known.priority, 4);
    this.weight := coalesce(its.weight, known.weight, 1);
    this.not_before := coalesce(its.not_before, clock_timestamp());
    this.not_after := its.not_after;
    this."group" := its."group";
    this.tenant := its.tenant;
    this.options := coalesce(its.options - 'keys', '{}') || jsonb_strip_nulls(jsonb_build_object('unique', this.options -> 'unique'))
                    || jsonb_build_object('stages', stages_with(old));
    perform check_job(this.work_type, this.payload, settings.payload_limit, this.priority, this.weight, this.queue, this."group",
                      this.tenant, this.not_before, this.not_after, its.options);
    perform check_encrypted(known.policy, this.work_type, this.payload);
    this.rank := compute_rank(this.not_before, this.not_after, this.priority, settings.aging);
    this.attempt := 0;
    this.deaths := 0;
    this.error := null;
    this.assignment := null;
    this.node_id := null;
    this.incarnation := null;
    this.assigned_at := null;
    this.started_at := null;
    if this.tenant is not null then
        perform note_tenants();
    end if;
    return make_eligible(this);
exception when sqlstate 'TXQ01' or data_exception then
    old.state := 'failed';
    old.finished_at := clock_timestamp();
    old.error := 'its next stage was refused: ' || sqlerrm;
    old.fingerprint := fingerprint(old.error);
    old.failed_at := old.finished_at;
    return old;
end $$;
