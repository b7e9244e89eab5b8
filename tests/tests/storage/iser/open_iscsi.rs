//! The kernel's initiator in the guest, ib_iser, with open-iscsi's programs.

use std::time::Duration;

use roce_tests::lab::{Drops, GuestChild, Lab};

use super::tgtd::TARGET;
use super::{INITIATOR, TIMEOUT, drop_packets, in_guest};

/// Configures open-iscsi as an administrator would. The image has no /run/lock, and no systemd
/// that starts iscsid.
const PREPARE: &str = "
    modprobe ib_iser
    modprobe sd_mod
    mkdir -p /run/lock
    echo InitiatorName=$1 >/etc/iscsi/initiatorname.iscsi";

/// Waits until iscsid listens, finds the target, and sets its parameters: $3 seconds until
/// requests fail while there is no connection, and a ping each second, answered within two.
///
/// Discovery is tried five times. On a busy machine, `iscsiadm` overlooks an answer that arrives before the kernel
/// confirms the request, and waits. `tgtd` sends a NOP-In every five seconds. `ib_iser` has posted no receive for
/// it: in a discovery session it posts one for each request. When the RNR retries are used up, the connection ends.
const DISCOVER: &str = "
    until grep -q ISCSIADM /proc/net/unix; do sleep 0.02; done
    tries=5
    until iscsiadm -m discoverydb -t sendtargets -p $1 -I iser --discover; do
        tries=$((tries - 1))
        test $tries -gt 0
    done
    set -- $2 node.session.timeo.replacement_timeout=$3 \\
        node.conn[0].timeo.noop_out_interval=1 node.conn[0].timeo.noop_out_timeout=2 \\
        node.conn[0].timeo.logout_timeout=2
    target=$1
    shift
    for setting; do
        iscsiadm -m node -T $target -o update -n ${setting%=*} -v ${setting#*=}
    done";

/// Logs in, and prints the disk's name.
const LOG_IN: &str = "
    iscsiadm -m node -T $1 --login
    until disk=$(ls /sys/class/iscsi_session/session*/device/target*/*:1/block); do
        sleep 0.02
    done 2>/dev/null
    until test -b /dev/$disk; do sleep 0.02; done
    echo disk $disk";

/// A session of the guest with our target. Logs out when dropped, also if a test fails.
pub(super) struct Session<'a> {
    lab: &'a Lab,
    /// The device of logical unit 1, such as /dev/sda.
    pub(super) disk: String,
    _iscsid: GuestChild,
}

impl<'a> Session<'a> {
    /// Finds the target at `portal` and logs in. Requests fail when there is no connection for
    /// `replacement`.
    pub(super) fn open(lab: &'a Lab, portal: &str, replacement: Duration) -> Self {
        in_guest(lab, PREPARE, &[INITIATOR]);
        let mut session = Self {
            lab,
            disk: String::new(),
            _iscsid: lab.guest_spawn(["iscsid", "-f"]).expect("iscsid starts"),
        };
        let replacement = replacement.as_secs().to_string();
        in_guest(lab, DISCOVER, &[portal, TARGET, &replacement]);
        session.log_in();
        session
    }

    pub(super) fn log_in(&mut self) {
        let said = in_guest(self.lab, LOG_IN, &[TARGET]);
        let disk = said.lines().find_map(|line| line.strip_prefix("disk "));
        self.disk = format!("/dev/{}", disk.expect("a disk"));
    }

    /// Ends the session, or gives it up if the target does not answer.
    pub(super) fn log_out(&mut self) {
        in_guest(self.lab, "iscsiadm -m node -T $1 --logout", &[TARGET]);
    }

    /// Waits until the kernel's session is in `state`, such as FAILED.
    pub(super) fn wait_for_state(&self, state: &str) {
        let script =
            "until grep -q $1 /sys/class/iscsi_session/session*/state; do sleep 0.05; done";
        in_guest(self.lab, script, &[state]);
    }
}

impl Drop for Session<'_> {
    fn drop(&mut self) {
        // Logging out needs the network. What fails here was reported where it happened first.
        drop_packets(self.lab, Drops::None);
        let script = "umount /mnt/iser; iscsiadm -m node --logoutall=all; \
            rm -rf /etc/iscsi/nodes /etc/iscsi/send_targets; \
            ! test -e /sys/class/iscsi_session/session*";
        let left = self.lab.guest(["sh", "-c", script]).output(TIMEOUT);
        let left = left.and_then(|output| output.success());
        if let (Err(error), false) = (left, std::thread::panicking()) {
            panic!("a session stays: {error}");
        }
    }
}
