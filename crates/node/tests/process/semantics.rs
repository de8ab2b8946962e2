//! Behaviours that brokers easily get wrong and that client libraries rely on. `docs/semantics.md` lists them
//! with those whose tests need no socket and stand in the crates that decide them.

mod connection;
mod consuming;
mod declaring;
mod publishing;
mod quorum;
mod script;
mod streams;
