-- Sets of items are called worksets; a pool is one of connections or threads. Older code calls the sets
-- pools, so it cannot work with this schema.

-- Constraints rename their indexes, and so come first; the sets' own tables are among the relations.
do $$
declare
    former record;
begin
    for former in
        select conrelid::regclass as its_table, conname as name from pg_constraint
         where connamespace = 'txqueue'::regnamespace and conname ~ '^pool_' and conrelid <> 0
    loop
        execute format('alter table %s rename constraint %I to %I', former.its_table, former.name,
                       replace(regexp_replace(former.name, '^pool', 'workset'), '_pool_id', '_workset_id'));
    end loop;
    for former in
        select oid::regclass as relation, relname as name, relkind from pg_class
         where relnamespace = 'txqueue'::regnamespace and relname ~ '^pool(_|$)' and relkind in ('r', 'i', 'S')
         order by relkind desc
    loop
        execute format('alter %s %s rename to %I',
                       case former.relkind when 'r' then 'table' when 'i' then 'index' else 'sequence' end,
                       former.relation, replace(regexp_replace(former.name, '^pool', 'workset'), '_pool_id', '_workset_id'));
    end loop;
end $$;

alter table txqueue.workset rename column pool_id to workset_id;
alter table txqueue.workset_slot rename column pool_id to workset_id;
alter table txqueue.workset_part rename column pool_id to workset_id;
alter table txqueue.workset_failed rename column pool_id to workset_id;

comment on table txqueue.workset is 'The sets: each has a table of its own, workset_<name>, or is an application''s table.';
comment on column txqueue.workset.done is 'Items counted by jobs that have ended; see workset_slot.';
comment on table txqueue.workset_slot is 'The jobs of the worksets, at most size of each, with what each has counted.';
comment on table txqueue.key_lock is 'Rows for locking: 0 to 16383 for groups, limited queues and tenants, the others for worksets.';

-- The jobs of a set have a work type of its own.
update txqueue.workset set job = jsonb_set(job, '{work_type}', to_jsonb(regexp_replace(job ->> 'work_type', ':pool$', ':workset')));
update txqueue.job set work_type = regexp_replace(work_type, ':pool$', ':workset')
 where work_type like '%:pool' and state in ('waiting', 'ready', 'assigned', 'failed');
update txqueue.work_type set work_type = regexp_replace(work_type, ':pool$', ':workset') where work_type like '%:pool';
