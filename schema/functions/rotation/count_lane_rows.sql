-- The number of rows of a lane, up to a maximum, without remnants. Jobs leave a lane from its front, which may have hundreds of
-- thousands of dead rows, so its last pages are read first.
create or replace function txqueue.count_lane_rows(leaf text, most integer) returns integer
language plpgsql volatile
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    pages    constant bigint := pg_relation_size(leaf::regclass) / current_setting('block_size')::integer;
    near_end constant tid := format('(%s,0)', greatest(0, pages - 64));
    rows     integer;
begin
    execute format('select count(*) from (select from %I where ctid >= $1 and job_id > 0 limit $2) as rows', leaf) into rows using near_end, most;
    if rows < most then
        execute format('select count(*) from (select from %I where job_id > 0 limit $1) as rows', leaf) into rows using most;
    end if;
    return rows;
end $$;
