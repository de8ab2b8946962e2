//! How nodes become a cluster, as values: fresh nodes agree on the one that makes it, others join, members
//! leave.
//! Knows names, promises and times that are given. Never sockets, clocks, threads, files, Raft groups.
//! Start reading at [`Forming`].

mod forming;
mod message;
mod promise;

pub use forming::{FORMING_REPORT_MS, Forming, FormingSettings, FormingStep, FormingWait};
pub use message::{FORMING_ROWS, FormingAnswer, FormingAsk, FreshNode, NAMES_MAX};
pub use promise::MakerPromise;
