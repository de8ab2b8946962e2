//! Messages of queues and streams as people look at them: nothing changes for it.

pub(crate) mod browse;
mod look;
mod pace;
pub(crate) mod search;
mod shown;
