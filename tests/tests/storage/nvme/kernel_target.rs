//! Our host and the kernel's target, `nvmet_rdma` on Soft-RoCE.

use super::{NQN, TIMEOUT, command, run, run_ok, script};
use roce_tests::lab::{Direction, Drops, GUEST_IP4, Lab};
use roce_tests::random;
use std::process::Stdio;

/// The size of the namespace.
const MIB: usize = 64;

/// The kernel's target with a disk in the guest's memory. Dropping it removes the target.
struct Target<'lab> {
    lab: &'lab Lab,
    /// Its address as the command takes it.
    address: String,
}

impl<'lab> Target<'lab> {
    fn start(lab: &'lab Lab) -> Self {
        let target = Self {
            lab,
            address: format!("nvme://{GUEST_IP4}/{NQN}"),
        };
        target.up();
        target
    }

    fn up(&self) {
        let (ip, mib) = (GUEST_IP4.to_string(), MIB.to_string());
        let words = ["start", "rdma", &ip, "4420", NQN, &mib];
        script(self.lab, "nvmet.sh", &words).expect("the kernel's target starts");
    }

    /// Removes the target, even while hosts use it.
    fn down(&self) {
        script(self.lab, "nvmet.sh", &["stop"]).expect("the kernel's target stops");
    }

    /// The SHA-256 of the disk. The guest reads past its page cache, which the target bypasses.
    fn sha256(&self) -> String {
        let script = "dd if=/dev/ram0 bs=1M iflag=direct status=none | sha256sum";
        let output = self.lab.guest(["sh", "-c", script]).output(TIMEOUT);
        let text = output
            .and_then(|o| o.success())
            .expect("it is read")
            .stdout_text();
        text.split_whitespace().next().expect("a sum").to_owned()
    }
}

impl Drop for Target<'_> {
    fn drop(&mut self) {
        // Fails only if the guest is gone.
        let _ = script(self.lab, "nvmet.sh", &["stop"]);
    }
}

/// Writes and reads 64 MiB in parts, each with commands of another size, and compares them on both
/// sides.
fn move_data(lab: &Lab, target: &Target<'_>, queues: &str) {
    const PARTS: [&str; 4] = ["4K", "16K", "128K", "1M"];
    let folder = tempfile::tempdir().expect("a folder");
    let [whole, part, back] = ["whole", "part", "back"].map(|name| folder.path().join(name));
    let bytes = random::bytes(MIB << 20);
    std::fs::write(&whole, &bytes).expect("written");
    let pieces = bytes.chunks(bytes.len() / PARTS.len());
    for ((index, piece), block) in pieces.enumerate().zip(PARTS) {
        std::fs::write(&part, piece).expect("written");
        let offset = (index * piece.len()).to_string();
        let address = target.address.as_str();
        let common = [
            address, "--block", block, "--queues", queues, "--offset", &offset,
        ];
        let (part, back) = (part.to_str().expect("text"), back.to_str().expect("text"));
        run_ok(lab, &[&["write"], &common[..], &["--from", part]].concat());
        let length = piece.len().to_string();
        run_ok(
            lab,
            &[&["read"], &common[..], &["--length", &length, "--to", back]].concat(),
        );
        let read = std::fs::read(back).expect("read");
        assert!(read == piece, "{block} at a time: other bytes came back");
    }
    assert_eq!(target.sha256(), random::sha256(&whole));
}

#[test]
fn a_namespace_is_found_written_and_read() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let target = Target::start(&lab);
    let found = run_ok(&lab, &["discover", &format!("nvme://{GUEST_IP4}")]);
    assert!(
        found.contains(&format!("nvme://{GUEST_IP4}:4420/{NQN}")),
        "{found}"
    );
    let info = run_ok(&lab, &["info", &target.address, "--json"]);
    let info: serde_json::Value = serde_json::from_str(&info).expect("JSON");
    assert_eq!(info["subsystem"], NQN);
    assert_eq!(info["namespaces"][0]["bytes"], MIB << 20);
    for queues in ["1", "4"] {
        move_data(&lab, &target, queues);
    }
}

#[test]
fn nothing_is_lost_when_packets_are() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let target = Target::start(&lab);
    for direction in [Direction::ToGuest, Direction::ToHost] {
        lab.set_loss(direction, Drops::PerMille(10))
            .expect("it drops");
    }
    for queues in ["1", "4"] {
        move_data(&lab, &target, queues);
    }
    let dropped = lab.loss_counters().expect("counted");
    assert!(
        dropped.to_guest.dropped > 0 && dropped.to_host.dropped > 0,
        "{dropped:?}"
    );
}

#[test]
fn the_targets_refusals_are_errors_that_say_why() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let _target = Target::start(&lab);
    let refused = |arguments: &[&str], why: &str| {
        let output = run(&lab, arguments);
        let text = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{arguments:?}: {text}");
        assert!(text.contains(why), "{arguments:?}: {text}");
    };
    let unknown = format!("nvme://{GUEST_IP4}/nqn.2014-08.org.nvmexpress:unknown");
    refused(&["info", &unknown], "no such subsystem: ");
    let elsewhere = format!("nvme://{GUEST_IP4}:4421/{NQN}");
    refused(&["info", &elsewhere], "cannot connect queue 0");
}

/// A target that vanishes while the host writes: the host says which bytes are not known to be
/// durable. Afterwards, the host connects again.
#[test]
fn a_target_that_vanishes_costs_no_wrong_success() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let target = Target::start(&lab);
    let bench = [
        "bench",
        &target.address,
        "--mode",
        "write",
        "--overwrite",
        "--duration",
        "90",
    ];
    let mut bench = command(&lab, &bench);
    let bench = bench
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("it starts");
    // The guest sees that writes arrive: the benchmark's bytes are random.
    let wait = "until dd if=/dev/ram0 bs=64K count=1 iflag=direct status=none | tr -d '\\0' | grep -q .; \
                do :; done";
    let seen = lab.guest(["sh", "-c", wait]).output(TIMEOUT);
    seen.and_then(|o| o.success()).expect("writes arrive");
    target.down();
    let output = bench.wait_with_output().expect("it ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains("not known to be durable"), "{text}");
    assert!(text.contains("answered, not flushed"), "{text}");

    target.up();
    move_data(&lab, &target, "1");
}
