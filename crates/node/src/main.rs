//! The `leveret` binary: configuration, start order, shutdown.

fn main() {}
