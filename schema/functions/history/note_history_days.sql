-- Records the range of job numbers of each past day that no transaction can still write into; the indexes
-- give them at once.
create or replace function txqueue.note_history_days() returns void
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    this    record;
    lowest  bigint;
    highest bigint;
begin
    for this in
        select due.leaf from history_due((clock_timestamp() at time zone 'UTC')::date - 1) as due
         where due.leaf not in (select known.leaf from history_day as known)
    loop
        execute format('select min(job_id), max(job_id) from %I', this.leaf) into lowest, highest;
        insert into history_day values (this.leaf, lowest, highest) on conflict do nothing;
    end loop;
    delete from history_day as known where to_regclass(format('%I', known.leaf)) is null;
end $$;
