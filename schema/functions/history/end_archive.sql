-- Notes that a day of history has been archived and read back. Returns false if it changed meanwhile, or
-- another attempt has begun.
create or replace function txqueue.end_archive(
    its_leaf text, its_attempt integer, its_location text, its_jobs bigint, its_checksum text) returns boolean
language sql volatile security definer
set search_path = txqueue, pg_temp
set jit = off
as $$
    with noted as (
        update archived
           set location = its_location, jobs = its_jobs, checksum = its_checksum, verified_at = clock_timestamp()
         where leaf = its_leaf and attempt = its_attempt and dropped_at is null
        returning leaf
    )
    select exists (select from noted)
$$;
