-- Returns a job in its state with the parents that link_parents() has stored: cancelled if one can never be
-- done, waiting while one has not ended, else unchanged, with their outcomes. Deletes its rows of job_parent
-- unless it waits.
create or replace function txqueue.hold_for_parents(this job, others bigint[]) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
declare
    failed record;
begin
    select parent, ended into failed from job_parent
     where child = this.job_id and ended in ('failed', 'cancelled') and not any_end order by parent limit 1;
    if found then
        this := cancel_orphan(this, failed.parent, failed.ended);
    elsif exists (select from job_parent where child = this.job_id and ended is null) then
        this.state := 'waiting';
        this.waiting_for := 'parents';
        this.followed := 1;
        perform note_late_ends(array(
            select parent from job_parent where child = this.job_id and ended is distinct from 'done' and parent = any (others)));
        return this;
    else
        this := add_parent_outcomes(this);
    end if;
    delete from job_parent where child = this.job_id;
    return this;
end $$;
