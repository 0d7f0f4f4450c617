//! The thread table, read.
