-- Returns a job that is no longer assigned to a node, for the current lane.
create or replace function txqueue.without_assignment(this job) returns job
language plpgsql volatile
set search_path = txqueue, pg_temp
as $$
begin
    this.lane := current_lane();
    this.assignment := null;
    this.node_id := null;
    this.incarnation := null;
    this.assigned_at := null;
    this.started_at := null;
    this.handed := null;
    this.counted := null;
    return this;
end $$;
