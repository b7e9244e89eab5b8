//! This stack and the kernel's Soft-RoCE in the lab's guests, and the lab itself.
//!
//! One program, so that its tests share their guests: booting them takes longer than
//! most tests do. `cargo test -p roce-tests --test interop ops::` runs some of them.

mod cm;
mod congestion;
mod errors;
mod lab_self;
mod loss;
mod ops;
mod option;
mod pingpong;
mod programs;
mod rust_cm;
mod rxe_peer;
mod srq;
mod textbook;
