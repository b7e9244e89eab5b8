//! The end of a command in the guest.

/// How a command in the guest ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GuestStatus {
    /// By itself, with this exit code.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}
