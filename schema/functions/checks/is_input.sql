-- Whether a text is a valid value of a type; PostgreSQL 16 and later have pg_input_is_valid().
create or replace function txqueue.is_input(given text, its_type regtype) returns boolean
language plpgsql stable
set search_path = txqueue, pg_temp
as $$
begin
    if its_type is null then
        return false;
    end if;
    execute format('select %L::%s', given, its_type);
    return true;
exception when data_exception then
    return false;
end $$;
