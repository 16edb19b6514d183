-- Raises the error of options that a worker could not obey. It shows no value: the server may log the error.
create or replace function txqueue.refuse_option(options jsonb) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    broken text := find_broken_option(options);
begin
    return case broken
        when 'options' then refuse('options is not a JSON object', 'pass an object, or null for none')
        when 'size' then refuse('the options are longer than 65536 bytes', 'put data into the payload')
        when 'reserved' then refuse('parents, after, after_any_end, grouped and left are not options that can be given',
                                    'leave them out; pass after as an argument of its own')
        when 'unknown' then refuse_unknown_option(options)
        when 'timeout' then refuse('timeout is not within 0 and ten years of seconds',
                                   'give seconds above 0 as a number, or leave it out')
        when 'attempts' then refuse('attempts is not a whole number from 1 to 32767', 'give how many runs the job gets in all')
        when 'traceparent' then refuse('traceparent is not a header of W3C Trace Context',
                                       'give one like 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01, or leave it out')
        when 'tracestate' then refuse('tracestate is not text', 'give the header tracestate of W3C Trace Context, or leave it out')
        when 'tags' then refuse('tags are not an object of at most 10 texts of up to 200 characters without control characters',
                                'name each with 1 to 50 letters, digits, _ . or -, as in {"campaign": "spring"}')
        else refuse(format('%s is neither true nor false', broken), 'give true or false, or leave it out')
    end;
end $$;
