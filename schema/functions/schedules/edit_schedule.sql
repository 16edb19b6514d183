-- Replaces the times of a schedule by others, given as for put_schedule(); its job and its condition stay. Returns
-- whether anything changed.
create or replace function txqueue.edit_schedule(its_name text, terms jsonb, who text) returns boolean
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    this      schedule := lock_schedule(its_name);
    condition jsonb := jsonb_build_object('table', this.condition_table, 'column', this.condition_column, 'value', this.condition_value);
begin
    if this.is_declared then
        perform refuse(format('the schedule %s is declared in the code', its_name), 'change it there');
    end if;
    -- Only the times: the operator who changes them need not be able to read the table of the condition.
    perform check_schedule_times(terms);
    return save_schedule(its_name, terms, this.job, condition, who, false);
end $$;
