-- Sends a signal for an operator, as signal() does, and records the act.
create or replace function txqueue.send_signal(
    its_job_id bigint, its_name text, its_value jsonb, its_key text, who text, out is_new boolean)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
begin
    is_new := signal(its_job_id, its_name, its_value, its_key);
    if is_new then
        -- Without the value, which may be secret.
        perform note_action(who, 'signal', format_job_ids(array[its_job_id]),
                            jsonb_build_object('jobs', array[its_job_id], 'name', its_name));
    end if;
end $$;
