//! Dumps of every form, made by the crate's own writer, read back.

mod data;
mod forms;
mod hostile;
mod sessions;
mod support;
