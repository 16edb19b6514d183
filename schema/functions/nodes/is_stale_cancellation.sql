-- Whether a request is for a job that its node no longer holds, and the calling node must handle it: the
-- request's own node, or any node if that one is dead.
create or replace function txqueue.is_stale_cancellation(this request, its_incarnation integer) returns boolean
language sql stable
set search_path = txqueue, pg_temp
set enable_seqscan = off
as $$
    select (this.incarnation = its_incarnation or not exists (
              select from node_info as node
               where node.incarnation = this.incarnation and node.state in ('alive', 'draining')))
       and not exists (
              select from job_assigned as held
               where held.job_id = this.job_id and held.incarnation = this.incarnation
                 and held.assignment = this.assignment)
$$;
