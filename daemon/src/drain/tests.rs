//! A recording without a kernel.
