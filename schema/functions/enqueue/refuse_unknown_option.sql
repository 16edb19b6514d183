-- Raises the error of options of which one has a name that no option has.
create or replace function txqueue.refuse_unknown_option(options jsonb) returns text
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
declare
    known constant text[] := known_options();
    -- The last three are those of schedules.
    shown constant text[] := trim_array(known, 3);
    arguments constant text[] := array['queue', 'priority', 'weight', 'not_before', 'not_after', 'group', 'tenant', 'unique',
                                       'unique_mode'];
    wrong constant text := (select left(min(key), 200) from jsonb_object_keys(options) as key
                             where key <> all (known));
begin
    return refuse(format('there is no option %s', wrong),
                  case when wrong = any (arguments) then 'pass it as an argument of its own, not among the options'
                       else format('%suse %s', nearest_name(wrong, shown), array_to_string(shown, ', ')) end);
end $$;
