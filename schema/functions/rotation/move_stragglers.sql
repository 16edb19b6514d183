-- Moves the last few jobs of a lane to the current one; leaves the lane unchanged while it has more than a
-- few. It locks the lane against all writers, with a very short timeout: otherwise a session that looked for
-- a moving job in its old place would wait, and not find it. Returns how many.
create or replace function txqueue.move_stragglers(kind text, from_lane smallint, to_lane smallint, few integer)
returns integer
language plpgsql volatile
set search_path = txqueue, pg_temp
set enable_seqscan = off
set lock_timeout = '50ms'
as $$
declare
    leaf  text := format('job_%s_%s', kind, from_lane);
    moved integer := 0;
    this  job;
begin
    if count_lane_rows(leaf, few + 1) > few then
        return 0;
    end if;
    execute format('lock table %I in exclusive mode', leaf);
    for this in execute format('delete from %I where job_id > 0 returning *', leaf) loop
        this.lane := to_lane;
        if not (has_large_values(this) and fail_if_damaged(this)) then
            insert into job values (this.*);
        end if;
        moved := moved + 1;
    end loop;
    return moved;
exception when lock_not_available then
    return 0;
end $$;
