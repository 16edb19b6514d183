-- The jobs that were enqueued as assigned to a node by open credit, whether or not notifications have named them: those
-- in the current lane and in the one before, with a number of the assignment above `after` that the node does not know;
-- each with its lane and a chunk.
--
-- credit: the value of the sequence open_credit before that. drawn: the last number of an assignment after that. A
-- session begins to write, draws the number and takes of the credit, in this order. So a job that is not returned, and
-- whose credit is counted, belongs to a transaction that was open. Once all have ended that were open, the next call
-- need not look up to `drawn`.
create or replace function txqueue.credited_jobs(
    its_incarnation integer, after bigint, known bigint[],
    out lanes smallint[], out assignments bigint[], out chunks text[], out credit bigint, out drawn bigint)
language plpgsql volatile security definer
set search_path = txqueue, pg_temp
set enable_seqscan = off
set enable_bitmapscan = off
set jit = off
as $$
declare
    lane  smallint := current_lane();
    found record;
begin
    credit := pg_sequence_last_value('open_credit');
    drawn := (coalesce(pg_sequence_last_value('assignment'), 0) << 22) + 4194303;
    lanes := '{}';
    assignments := '{}';
    chunks := '{}';
    for turn in 1 .. 2 loop
        case lane
            when 0 then found := credited_in_0(its_incarnation, after, known);
        end case;
        if found.assignments is not null then
            lanes := lanes || array_fill(lane, array[cardinality(found.assignments)]);
            assignments := assignments || found.assignments;
            chunks := chunks || found.chunks;
        end if;
        lane := (lane + 7) % 8;
    end loop;
end $$;
