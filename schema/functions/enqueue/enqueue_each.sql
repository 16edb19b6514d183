-- Enqueues an array of jobs one by one, as some of them have unique keys or wait for others: those with keys
-- in the order of their keys, so that all transactions lock keys in one order. Returns their numbers in the
-- order given.
create or replace function txqueue.enqueue_each(jobs jsonb) returns bigint[]
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    ids   bigint[] := array_fill(null::bigint, array[jsonb_array_length(jobs)]);
    this  record;
begin
    for this in
        select its.*, place
          from jsonb_array_elements(jobs) with ordinality as element (value, place),
               jsonb_to_record(value) as its (
                   work_type text, payload jsonb, queue text, priority integer, weight integer,
                   not_before timestamptz, not_after timestamptz, "group" text, options jsonb, tenant text,
                   "unique" text, unique_mode text, after bigint[], after_any_end boolean)
         order by its."unique" is not null, its.work_type, its."unique", place
    loop
        ids[this.place] := enqueue(
            this.work_type, this.payload, this.queue, this.priority, this.weight, this.not_before, this.not_after,
            this."group", this.options, this.tenant, this."unique", this.unique_mode, this.after, this.after_any_end);
    end loop;
    return ids;
end $$;
