//! Named faults.
