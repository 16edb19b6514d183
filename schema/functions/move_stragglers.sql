-- Moves the last few jobs of a lane to the current one; leaves the lane alone while it holds more
-- than a few, and skips what a claim or a completion holds. Returns how many it moved.
create or replace function @schema@.move_stragglers(kind text, from_lane smallint, to_lane smallint, few integer)
returns integer
language plpgsql volatile
set search_path = @schema@, pg_temp
set enable_seqscan = off
as $$
declare
    leaf  text := format('job_%s_%s', kind, from_lane);
    live  integer;
    moved integer := 0;
    this  job;
begin
    execute format('select count(*) from (select from %I limit %s) as rows', leaf, few + 1) into live;
    if live > few then
        return 0;
    end if;
    for this in execute format(
        'delete from %1$I where ctid = any (array(select ctid from %1$I for update skip locked)) returning *', leaf)
    loop
        this.lane := to_lane;
        insert into job values (this.*);
        moved := moved + 1;
    end loop;
    return moved;
end $$;
