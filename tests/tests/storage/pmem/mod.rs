//! FLUSH to persistence and ATOMIC WRITE with Soft-RoCE of kernel 7.2, in both roles. It has them only
//! for persistent memory, which the guest's emulator provides.

mod ours;
mod peer;
mod power;
mod soft_roce;

use std::time::Duration;

/// Longer than any step takes, also on a busy machine.
const TIMEOUT: Duration = Duration::from_secs(100);
