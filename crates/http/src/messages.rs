//! Messages of queues and streams as people look at them, which changes nothing, and as they bring them in.

pub(crate) mod browse;
pub(crate) mod import;
pub(crate) mod line;
mod look;
mod origin;
mod pace;
pub(crate) mod redrive;
pub(crate) mod remove;
pub(crate) mod search;
mod select;
mod shown;
pub(crate) mod tail;
