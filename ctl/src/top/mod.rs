//! The busiest threads, live: accounting over events ([`model`], [`table`]), what threads are in
//! ([`doing`]), what the screen shows ([`screen`]) and how it looks ([`view`], [`plain`]), its keys
//! ([`keys`]), and what drives them ([`run`]).

pub mod doing;
pub mod events;
pub mod keys;
pub mod model;
pub mod past;
pub mod plain;
pub mod run;
pub mod screen;
pub mod table;
pub mod view;
