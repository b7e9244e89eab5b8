//! The lab tests itself: commands, the link, captures, faults.

mod commands;
mod faults;
mod link;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use roce_tests::lab::Lab;

const TIMEOUT: Duration = Duration::from_secs(60);

/// UDP port of RoCEv2.
const ROCE: u16 = 4791;

/// A ping from outside the guest, to which options can be added.
fn ping(lab: &Lab, address: &str) -> Command {
    let mut command = lab.host_command("busybox");
    command.args(["ping", "-W5", address]);
    command
}

/// The number of packets in a capture that match a filter of pcap-filter(7).
fn count(lab: &Lab, file: &Path, filter: &str) -> usize {
    let output = lab
        .host_command("tcpdump")
        .arg("-nr")
        .arg(file)
        .arg(filter)
        .output()
        .unwrap();
    assert!(output.status.success(), "{output:?}");
    output.stdout.iter().filter(|&&byte| byte == b'\n').count()
}
