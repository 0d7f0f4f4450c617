//! Following a recording while it is written: asking for what is new ([`follower`]) until it is
//! enough ([`stop`]), and taking it ring by ring ([`tail`]).
//!
//! The recorder notices nothing of it: the daemon copies pages when it is asked, and waits for
//! nobody. Who is too slow misses pages, and is told exactly what.

pub mod follower;
pub mod stop;
pub mod tail;
