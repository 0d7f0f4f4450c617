//! Tests on the running kernel, as root. One file per kind of truth.

mod harness;
