//! The forming of a cluster, as values: fresh nodes agree on the one that makes it; nodes join and leave.
//! Knows names, promises and times that are given. Never sockets, clocks, threads, files, Raft groups.
//! Start reading at [`Forming`] and [`Joining`].

mod forming;
mod joining;
mod joining_message;
mod joining_note;
mod message;
mod names;
mod promise;

pub use forming::{FORMING_REPORT_MS, Forming, FormingSettings, FormingStep, FormingWait};
pub use joining::{Joining, JoiningStep};
pub use joining_message::{
    JOINING_ROWS, JoinAnswer, JoinAsk, JoinedCluster, JoinedMember, LeaveAsk,
};
pub use joining_note::JoiningNote;
pub use message::{FORMING_ROWS, FormingAnswer, FormingAsk, FreshNode};
pub use names::NAMES_MAX;
pub use promise::MakerPromise;
