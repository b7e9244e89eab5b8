//! Tests `libibverbs.so.1` from outside: its symbols, C programs written for these tests, and
//! unmodified third-party programs.

mod c;
mod library;
mod process;
mod programs;
mod pyverbs;
mod symbols;
