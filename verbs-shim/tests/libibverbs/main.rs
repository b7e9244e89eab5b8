//! `libibverbs.so.1` as programs use it: its symbols, C programs that were written for these
//! tests, and unmodified third-party programs.

mod c;
mod library;
mod process;
mod programs;
mod pyverbs;
mod symbols;
