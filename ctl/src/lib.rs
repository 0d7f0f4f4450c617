//! `flightctl`: reads the flight recorder.
//!
//! A command asks a [`source`] for pages and does not know where they come from: a live daemon or
//! the rings pinned in the kernel. The [`pipeline`] makes one stream of events of them, with names,
//! durations and places; [`text`] makes lines of the events; [`coverage`] says what is missing.

pub mod args;
pub mod around;
pub mod boots;
pub mod commands;
pub mod control;
pub mod coverage;
pub mod descriptors;
pub mod doctor;
pub mod epoch;
pub mod exit;
pub mod fds;
pub mod filter;
pub mod follow;
pub mod help;
pub mod human;
pub mod in_flight;
pub mod json;
pub mod kind;
pub mod left_out;
pub mod memory;
pub mod names;
pub mod output;
pub mod pipeline;
pub mod plan;
pub mod progress;
pub mod ps;
pub mod remarks;
pub mod render;
pub mod schema;
pub mod source;
pub mod state;
pub mod suggest;
pub mod text;
pub mod top;
pub mod window;
pub mod windows;
pub mod zone;
