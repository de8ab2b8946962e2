//! Raft groups over the node's log: what replicas of one thing agree on, entry by entry.
//! Knows entries, votes, images, members, messages between replicas. Never sockets, clocks, threads, files
//! besides the log, what a command means.
