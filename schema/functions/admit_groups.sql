-- Of jobs locked by a claim in one ready lane, parks those whose group is busy and returns the rows
-- to take: all without a group, and of each group the oldest if none of it runs and no older one
-- is ready or parked. A group whose key another session holds is left for the next claim.
create or replace function @schema@.admit_groups(
    its_lane smallint, locked tid[], out taken tid[], out parked integer)
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    held  text[];
    free  text[];
    leaf  text := format('job_ready_%s', its_lane);
    this  job;
begin
    parked := 0;
    execute format('select array_agg("group") from (
            select distinct "group" from %s where ctid = any ($1) and "group" is not null limit 500) as keys
          where pg_try_advisory_xact_lock(hashtextextended("group", 839))', leaf)
       into held using locked;
    select array_agg(key) into free from unnest(held) as key
     where not exists (select from job_assigned where "group" = key);
    execute format('select array_agg(ctid order by rank, job_id) from (
            select ctid, "group", rank, job_id, row_number() over (partition by "group" order by rank, job_id) as place
              from %s where ctid = any ($1)) as mine
          where "group" is null or (place = 1 and "group" = any ($2) and not exists (
            select from job_ready as other where other."group" = mine."group"
               and (other.rank, other.job_id) < (mine.rank, mine.job_id)) and not exists (
            select from job_waiting as other where other."group" = mine."group" and other.waiting_for = ''group''
               and (other.rank, other.job_id) < (mine.rank, mine.job_id)))', leaf)
       into taken using locked, free;
    for this in execute format('delete from %s where ctid = any ($1) and "group" = any ($2) and ctid <> all ($3)
                               returning *', leaf) using locked, held, coalesce(taken, '{}')
    loop
        this.state := 'waiting';
        this.waiting_for := 'group';
        insert into job values (this.*);
        parked := parked + 1;
    end loop;
    -- Nothing of these groups is left that could wake the parked ones.
    perform free_groups(array(
        select key from unnest(free) as key where not exists (select from job_ready where "group" = key)));
end $$;
