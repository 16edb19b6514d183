-- Raises the error of options that a worker could not obey.
create or replace function @schema@.refuse_option(options jsonb) returns text
language plpgsql volatile
set search_path = @schema@, pg_temp
as $$
declare
    broken text := broken_option(options);
    given  text := left(options ->> broken, 100);
begin
    return case broken
        when 'options' then refuse('options is not a JSON object', 'pass an object, or null for none')
        when 'size' then refuse('the options are longer than 65536 bytes', 'put data into the payload')
        when 'reserved' then refuse('parents, after, after_any_end, grouped and left are not options that can be given',
                                    'leave them out; pass after as an argument of its own')
        when 'timeout' then refuse(format('timeout %s is not within 0 and ten years of seconds', given),
                                   'give seconds above 0 as a number, or leave it out')
        when 'attempts' then refuse(format('attempts %s is not a whole number from 1 to 32767', given), 'give how many runs the job gets in all')
        else refuse(format('%s is neither true nor false', broken), 'give true or false, or leave it out')
    end;
end $$;
