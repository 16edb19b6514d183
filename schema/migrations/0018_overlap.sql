-- serves: 7
-- Whether jobs of a schedule may overlap, and since when cool-downs count.

alter table txqueue.schedule
    add column overlap text not null default 'allow' check (overlap in ('allow', 'skip')),
    add column counts_from text not null default 'end' check (counts_from in ('start', 'end'));
comment on column txqueue.schedule.overlap is 'Whether a moment at which its last job has not ended gets a job.';
comment on column txqueue.schedule.counts_from is 'Whether its cool-down counts since the start or the end of its last job.';
