//! Storage over RoCE: the protocols of disks, against the kernel's own ends in the lab's guest.
//!
//! `cargo test -p roce-tests --test storage nvme::` runs some of them.

mod nvme;
mod random;
