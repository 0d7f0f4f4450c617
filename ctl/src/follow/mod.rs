//! Following a recording while it is written: asking for what is new ([`follower`]), taking it ring
//! by ring ([`tail`]), and showing it ([`show`]).
//!
//! The recorder notices nothing of it: the daemon copies pages when it is asked, and waits for
//! nobody. Who is too slow misses pages, and is told exactly what.

pub mod follower;
pub mod lines;
pub mod show;
pub mod stop;
pub mod tail;
mod tally;
