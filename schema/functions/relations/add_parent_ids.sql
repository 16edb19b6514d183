-- Returns a job with its parents among its options, for its history and for retries. Of more than a thousand
-- parents only the number is stored, and the job cannot be retried if one was not done.
create or replace function txqueue.add_parent_ids(this job, parents bigint[], its_any_end boolean) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    this.options := coalesce(this.options, '{}')
        || case when cardinality(parents) <= 1000 then jsonb_build_object('after', parents)
                else jsonb_build_object('after', cardinality(parents)) end
        || case when its_any_end then '{"after_any_end": true}' else '{}' end::jsonb;
    return this;
end $$;
