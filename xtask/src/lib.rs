//! `cargo xtask …`, and what the benchmarks and the system tests share with it: running commands,
//! setting up the machine, building programs and packages.

pub mod apt;
mod arch;
pub mod architecture;
pub mod build;
mod check_modules;
mod cli;
pub mod command;
pub mod cross;
pub mod deb;
mod deny;
pub mod elf;
pub mod foreign;
mod fuzz;
pub mod image;
mod man;
pub mod probes;
mod release;
mod reproducible;
pub mod rpm;
mod sbom;
pub mod setup;
mod site;
pub mod static_program;
pub mod tarball;
mod test;
mod tool;

pub use cli::{command_line, main};
