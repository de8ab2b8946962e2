//! Streams at run time: chunks made of what is published, written and confirmed; consumers that read them at
//! their own pace. Never sessions, exchanges, protocols' commands, or how chunks lie in files.
//! Start reading at [`Stream`], then `writing`, then [`Consumer`].

mod arguments;
mod confirms;
mod consumer;
mod cursor;
mod filtering;
mod follower;
mod groups;
mod inspection;
mod listed;
mod losses;
mod making;
mod membership;
mod messages;
mod publisher;
mod readers;
mod release;
mod removal;
mod scrubber;
mod service;
mod services;
mod source;
mod stream;
mod subscription;
mod tail;
mod turns;
mod writer;
mod writing;

pub use chunk_log::{Lack, ReadAhead, ReadCounts, Scrub, Scrubbed};
pub use consumer::Consumer;
pub use cursor::StreamMessage;
pub use groups::{GroupRole, GroupView, NoSuchGroup};
pub use inspection::{Inspection, StreamFigures, TrackedValue};
pub use listed::{PublisherView, SubscriptionFigures, SubscriptionView};
pub use losses::StreamDamage;
pub use membership::{GroupConsumerView, GroupSeat, Memberships, updated_subscription};
pub use publisher::{StreamPublisher, Tracked};
pub use release::Release;
pub use removal::{end_writing, remove_files_after};
pub use scrubber::SCRUB_BYTES_PER_SECOND_MAX;
pub use service::StreamService;
pub use services::{StreamDurability, StreamLosses, StreamOptions};
pub use stream::Stream;
pub use subscription::{Subscribe, Subscription};
pub use tail::Tail;
