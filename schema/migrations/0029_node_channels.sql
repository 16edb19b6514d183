-- serves: 7
-- The channels on which notifications bring jobs to their nodes.

-- Unlogged, as a name lasts no longer than the connections to the server; so it is in no replica and in no archived log.
create unlogged table txqueue.node_channel (
    incarnation integer primary key,
    channel     text not null
);
comment on table txqueue.node_channel is
    'The channel on which each run of a node listens for its jobs. Who knows its name can read them, and send others: no role but the owner may read it.';
comment on column txqueue.node_channel.incarnation is 'The run of the node.';
comment on column txqueue.node_channel.channel is 'Its name, which cannot be guessed.';
