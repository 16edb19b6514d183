-- Registers one run of a node under its name and publishes its work types. An earlier run of the same name is
-- fenced, and its jobs return to the queue. Jobs that waited for one of the types become ready, under the
-- policy published, as do those that other versions of their types could not read. former_died: whether the
-- earlier run has died with its workers, as is so unless the same process registers again. Raises an error if
-- another run than the one that reserve_run() returned has the name by now.
create or replace function txqueue.register_node(
    its_name text, its_hostname text, its_pid integer, its_port integer, its_lease double precision,
    its_capacity integer, its_queues text[], its_work_types jsonb, its_version text,
    its_address text, reserved integer default null, its_former integer default null, former_died boolean default true,
    out node_id integer, out incarnation integer)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
declare
    replaced  integer;
    was_ended boolean;
    names     text[] := array(select each ->> 'work_type' from jsonb_array_elements(its_work_types) as each);
    versions  text[] := array(select each ->> 'version'
                                from jsonb_array_elements(its_work_types) as each where each ? 'version');
begin
    perform check_isolation('a node does not work');
    incarnation := coalesce(reserved, reserve_incarnation());
    select info.incarnation, info.state = 'stopped' into replaced, was_ended
      from node_info as info where info.name = its_name for update;
    insert into node_info as info (name, hostname, pid, port, incarnation, lease, capacity, queues, work_types, type_versions,
                                   version, address)
    values (its_name, its_hostname, its_pid, its_port, incarnation, make_interval(secs => its_lease),
            its_capacity, its_queues, names, versions, its_version, its_address)
    on conflict (name) do update set
        hostname = excluded.hostname, pid = excluded.pid, port = excluded.port,
        incarnation = excluded.incarnation, started_at = clock_timestamp(), heartbeat_at = clock_timestamp(),
        lease = excluded.lease, state = 'alive', load = 0, capacity = excluded.capacity,
        queues = excluded.queues, work_types = excluded.work_types, type_versions = excluded.type_versions,
        version = excluded.version, address = excluded.address, report = '{}', leased_at = clock_timestamp(), vouched_at = null, ended_at = null,
        former = info.incarnation, beats = 0
    returning info.node_id, info.former into node_id, replaced;
    -- Numbers of older code, which names no former run, grow.
    if coalesce(its_former <> coalesce(replaced, 0), replaced > reserved and replaced < 1073741824) then
        perform refuse(format('a newer run of the node %s has registered', its_name), 'give each node a name of its own');
    end if;
    if replaced is not null then
        perform release(replaced, '{}', former_died and was_ended is not true, true, at_most => 5000);
    end if;
    perform publish(its_work_types);
    perform review_unread();
end $$;
