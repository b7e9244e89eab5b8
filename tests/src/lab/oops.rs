//! Detects failures of the guest's kernel.

use super::{Lab, LabError};

/// Messages with which a kernel reports its own failures.
const SIGNS: &[&str] = &[
    "BUG:",
    "kernel BUG at",
    "Oops:",
    "general protection fault",
    "WARNING: CPU:",
    "Kernel panic",
    "sysrq triggered crash",
    "refcount_t:",
    "KASAN:",
    "UBSAN:",
    "blocked for more than",
];

/// A warning that is the kernel's own fault, with any peer. If an initiator has gone before the target
/// knows that its answer to the logout has arrived, the answer's send fails. ib_isert then releases the command
/// while it is still in the connection's list. With loss, the acknowledgement may not arrive.
const FAULT_OF_ISERT: &str = "iscsit_release_cmd+";

/// Lines of the log that an error shows, from the first sign on.
const SHOWN_LINES: usize = 40;

pub(super) fn check(lab: &Lab) -> Result<(), LabError> {
    let log = lab.dmesg()?;
    match first_sign(&log) {
        None => Ok(()),
        Some(line) => {
            let shown: Vec<&str> = log.lines().skip(line).take(SHOWN_LINES).collect();
            Err(LabError::new(format!(
                "the guest's kernel is not well:\n{}",
                shown.join("\n")
            )))
        }
    }
}

/// Number of the first line of the log that shows one of the signs.
pub(super) fn first_sign(log: &str) -> Option<usize> {
    log.lines().position(|line| {
        SIGNS.iter().any(|sign| line.contains(sign)) && !line.contains(FAULT_OF_ISERT)
    })
}

#[cfg(test)]
mod tests {
    use super::first_sign;

    #[test]
    fn finds_an_oops_and_nothing_else() {
        let well = "[ 1.0] rdma_rxe: loaded\n[ 1.1] infiniband rxe0: added eth0\n";
        assert_eq!(first_sign(well), None);
        let oops = format!("{well}[ 2.0] BUG: kernel NULL pointer dereference, address: 8\n");
        assert_eq!(first_sign(&oops), Some(2));
        let warning = format!("[ 0.9] WARNING: CPU: 1 PID: 7 at rxe_comp.c:9\n{well}");
        assert_eq!(first_sign(&warning), Some(0));
        let of_isert =
            "[ 0.9] WARNING: CPU: 0 PID: 7 at iscsi_target_util.c:702 iscsit_release_cmd+0xd3/0xe0";
        assert_eq!(first_sign(&format!("{of_isert}\n{well}")), None);
        assert_eq!(first_sign(&format!("{of_isert}\n{warning}")), Some(1));
    }
}
