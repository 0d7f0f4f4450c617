//! Faults of the disk.
