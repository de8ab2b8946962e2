//! Behaviours that brokers easily get wrong and that client libraries rely on, each by the number under which
//! the other tests, too, name it. What needs no socket is tested in the crates that decide it.

mod connection;
mod consuming;
mod declaring;
mod publishing;
mod script;
