//! The implementation of the `roce` command: a module for each subcommand, each with its arguments
//! and a `run` function.

// They panic if the output can't be written: `roce_trust::output` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

pub mod cdi;
mod command;
pub mod decode;
pub mod devices;
pub mod doctor;
mod elf;
pub mod environment;
mod error;
pub mod fabric;
mod lanes;
mod object;
pub mod perf;
mod plot;
mod process;
mod progress;
mod quote;
pub mod run;
pub mod sim;
pub mod top;
mod variables;
pub mod why;
mod words;

pub use command::{command_line, main};
