//! The message of `roce run` that a program has opened no device.

use super::Totals;

impl Totals {
    /// Whether a program that has ended misses a device: it has opened none, and has not only listed
    /// them, as programs that list devices do. One that fails may not have found the device that it
    /// looked for.
    pub fn misses_device(&self, has_succeeded: bool) -> bool {
        self.devices_opened == 0 && !(self.only_lists() && has_succeeded)
    }

    /// Says that a program has opened no device. `there` says which devices there are, if known.
    pub fn no_device_opened(&self, program: &str, there: Option<&str>) -> String {
        let there = there.map(|there| format!(": {there}")).unwrap_or_default();
        // Maybe no device has the name that it looks for.
        let renaming = match self.lists {
            0 => "",
            _ => {
                "; ROCE_DEVICE_NAMES=INTERFACE=NAME gives a device the name that a program looks for"
            }
        };
        format!(
            "no RDMA device was opened by {program} or what it started{there}; `roce doctor {program}` \
             looks for the cause{renaming}"
        )
    }
}
