//! The measurements by name: drives the load tool against one or several brokers in turn, and puts
//! the results side by side. Knows the load tool and its output. Never any part of the broker.
//! Start reading at [`result`] for what comes out.

pub mod report;
pub mod result;
