//! Whole conversations with the front: a client made of the codec on one side, a scripted broker on the
//! other; no sockets, no clocks.

#[cfg(test)]
mod connections;
#[cfg(test)]
mod consuming;
#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod harness;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod listing;
#[cfg(test)]
mod management;
#[cfg(test)]
mod pipes;
#[cfg(test)]
mod publishing;
#[cfg(test)]
mod times;
#[cfg(test)]
mod topics;
#[cfg(test)]
mod transactions;
