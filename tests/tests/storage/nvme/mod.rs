//! NVMe over RDMA.

mod kernel_host;
mod kernel_target;

use roce_tests::lab::{GuestOutput, Lab, LabError};
use roce_tests::programs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

const NQN: &str = "nqn.2014-08.org.nvmexpress:roce-lab";

/// Timeout of a command in the guest.
const TIMEOUT: Duration = Duration::from_secs(100);

/// The `nvme-rdma` command, outside the guest, with a limit on its time.
fn command(lab: &Lab, arguments: &[&str]) -> Command {
    let mut command = lab.host_command("timeout");
    command
        .arg("100")
        .arg(programs::built("nvme-rdma-under-test"));
    command.args(arguments);
    command
}

/// Runs the `nvme-rdma` command to its end.
fn run(lab: &Lab, arguments: &[&str]) -> Output {
    command(lab, arguments).output().expect("it starts")
}

/// Runs the `nvme-rdma` command, and returns what it prints.
///
/// # Panics
/// If it fails.
fn run_ok(lab: &Lab, arguments: &[&str]) -> String {
    let output = run(lab, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8(output.stdout).expect("text")
}

/// Runs a script of this folder in the guest.
fn script(lab: &Lab, name: &str, arguments: &[&str]) -> Result<GuestOutput, LabError> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/storage/nvme");
    let path = lab.guest_path(&path.join(name));
    let words = [&["sh", path.as_str()], arguments].concat();
    lab.guest(words).output(TIMEOUT)?.success()
}
