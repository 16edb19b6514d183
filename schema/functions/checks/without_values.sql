-- A damaged job without its values, which are lost: its payload becomes what readable_json() shows of one that is damaged,
-- so that no act runs the job without it.
create or replace function txqueue.without_values(this job, fault text) returns job
language plpgsql stable
set search_path = txqueue, pg_temp
as $$
begin
    this.payload := jsonb_build_object('txqueue cannot read this', fault);
    this.options := null;
    this.result := null;
    this.progress := null;
    this.error := this.error || '; its payload was lost';
    return this;
end $$;
