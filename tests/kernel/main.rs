//! Tests on the running kernel, as root. One file per kind of truth.

mod bad_input;
mod budget;
mod corners;
mod dd;
mod dump;
mod filters;
mod flood;
mod follow;
mod harness;
mod json;
mod names;
mod own_calls;
mod pingpong;
mod ps;
mod run_queue;
mod side_by_side;
mod state;
mod strace;
mod stress;
mod support;
mod survival;
mod tables;
mod top;
