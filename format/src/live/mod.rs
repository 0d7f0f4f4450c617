//! A recording that is running: its rings and tables, mapped from the kernel.

pub mod map;
pub mod sys;
