//! `libibverbs.so.1` as programs meet it: its symbols, C programs that were written for
//! these tests, and unchanged programs of others.

mod c;
mod library;
mod process;
mod programs;
mod pyverbs;
mod symbols;
