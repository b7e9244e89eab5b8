//! Storage over RoCE: the protocols of disks, against the kernel's own ends in the lab's guests.
//!
//! One program, so that its tests share their guests. `cargo test -p roce-tests --test storage
//! nvme::` runs some of them.

mod iser;
mod nvme;
mod pmem;
