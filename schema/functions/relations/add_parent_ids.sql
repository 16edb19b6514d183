-- A job with the parents it waits for among its options: for its history, and for when it is run again by hand. Of more
-- than a thousand the number is kept alone, and the job cannot be run again by hand once one was not done.
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
