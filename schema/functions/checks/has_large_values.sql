-- Whether values of an unended job may be stored apart from its row, where they can be lost: it looks at sizes, for
-- which nothing is read. Without settings of its own, so that it is inlined. See fail_if_damaged().
create or replace function txqueue.has_large_values(this txqueue.job) returns boolean
language sql stable
as $$
    select greatest(pg_column_size(this.payload), pg_column_size(this.options), pg_column_size(this.progress),
                    pg_column_size(this.error)) >= 200
$$;
