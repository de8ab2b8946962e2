//! Threads that work beside the connections' ones: how they end, how the failure of one ends the log, and how
//! publishers wait for those that have too much to do. Never what it is that they do.
//! Start reading at [`Inbox`].

mod inbox;

pub use inbox::{Inbox, NextTask, Pending};
