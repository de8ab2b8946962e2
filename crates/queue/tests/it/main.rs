//! The core's rules, by example and against models.

mod fifo;
mod machine;
mod machine_fuzz;
mod machine_vs_model;
mod policies_vs_model;
mod queue_policies;
mod runs;
