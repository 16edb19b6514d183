-- Readies the oldest parked job of each group; called by whatever took a job of the group away.
-- Keys are locked in sorted order, and only their holders touch parked rows, so no wake-up is lost.
create or replace function @schema@.free_groups(groups text[]) returns void
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    key      bigint;
    its_name text;
    this     job;
begin
    for key in select distinct hashtextextended(name, 839) from unnest(groups) as name order by 1 loop
        perform pg_advisory_xact_lock(key);
    end loop;
    for its_name in select distinct name from unnest(groups) as name loop
        for this in delete from job_waiting where ctid = (
                select ctid from job_waiting where waiting_for = 'group' and "group" = its_name
                 order by rank, job_id limit 1) returning *
        loop
            this.state := 'ready';
            this.waiting_for := null;
            this.lane := current_lane();
            insert into job values (this.*);
        end loop;
    end loop;
end $$;
