//! Tests of what nodes say to each other.

mod frames;
mod links;
