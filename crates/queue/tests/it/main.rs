//! The core's rules, by example and against models.

mod fifo;
mod machine;
mod policies_vs_model;
mod queue_policies;
