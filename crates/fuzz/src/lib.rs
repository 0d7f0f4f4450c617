//! Inputs gone wrong, for the programs of this crate and for tests: seeds, changes to them, and
//! crafted files that ask for more memory than a reader may take.

pub mod corpus;
pub mod memory;
pub mod mutate;
pub mod seal;
pub mod seeds;
