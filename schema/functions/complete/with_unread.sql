-- Returns a job whose options name one more version of its type that could not read its payload.
create or replace function txqueue.with_unread(this job, version text) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    this.options := case when jsonb_typeof(this.options) = 'object' then this.options else '{}' end
        || jsonb_build_object('unread', (
            select jsonb_agg(distinct name)
              from (select jsonb_array_elements_text(coalesce(this.options -> 'unread', '[]')) as name union select version) as each
             where name is not null));
    return this;
end $$;
