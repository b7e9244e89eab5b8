//! Soft-RoCE can stop in the middle of a message, for good.
//!
//! rxe's requester compares the distance of its next PSN from the last acknowledged one, and the
//! number of packets in flight, with limits. If one is exceeded, it sets a flag, and the code that
//! handles acknowledgements wakes it up (rxe_req.c: `wait_psn`, `need_req_skb`). The two steps are
//! not atomic: if the last acknowledgement arrives in between, nothing wakes up the requester, and
//! as nothing is outstanding, no timer runs either. The stall needs a guest whose processors are
//! descheduled at the wrong moment: with six of them on two cores of the host, it occurred twice in
//! an hour.
//!
//! The stall can be proved: the PSN that it sends next is the one that we expect next, so all its
//! packets have arrived; and this PSN is in the middle of a message.
//!
//! It also falls silent if it has gone back to repeat packets, and is then told that they have arrived
//! (`loss::silent`). Then the PSN that it sends next is shortly before the one that we expect.

use std::time::Duration;

use roce_tests::lab::{GUEST_RDMA_DEVICE, Lab};
use serde_json::Value;

/// The prefix of the line with the guest's queue pairs.
pub(crate) const QPS: &str = "queue pairs: ";

/// The state of the guest, for diagnosis: its QPs, the counters of its device, and where the
/// processes of `program` wait.
pub(crate) fn describe(lab: &Lab, program: &str) -> String {
    let look = format!(
        "echo \"{QPS}$(rdma -j resource show qp)\"; \
         cd /sys/class/infiniband/{GUEST_RDMA_DEVICE}/ports/1/hw_counters && grep . *; \
         ip neigh; for p in $(pidof {program}); do cat /proc/$p/wchan /proc/$p/stack; done"
    );
    let said = lab
        .guest(["sh", "-c", &look])
        .output(Duration::from_secs(30));
    match said {
        Ok(output) => output.stdout_text() + &output.stderr_text(),
        Err(error) => format!("the guest does not answer: {error}"),
    }
}

/// Whether Soft-RoCE has stopped in the middle of a message of `packets` packets, according to our
/// output and [`describe`].
pub(super) fn is_theirs(failure: &str, packets: usize) -> bool {
    stand(failure).is_some_and(|stand| stand.is_stalled(packets as u32))
}

/// The PSNs of the guest's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stand {
    /// The first.
    first: u32,
    /// The PSN that our responder expects next.
    expected: u32,
    /// The PSN that the guest's requester sends next.
    next: u32,
}

impl Stand {
    fn is_stalled(self, packets: u32) -> bool {
        let come = self.expected.wrapping_sub(self.first) & 0xff_ffff;
        let repeats = self.expected.wrapping_sub(self.next) & 0xff_ffff;
        repeats < packets && !come.is_multiple_of(packets)
    }
}

/// Parses the PSNs in the output.
fn stand(failure: &str) -> Option<Stand> {
    let remote = failure.split("remote address:").nth(1)?;
    let qpn = hex_after(remote, "QPN 0x")?;
    let qps = failure.lines().find_map(|line| line.strip_prefix(QPS))?;
    let qps: Value = serde_json::from_str(qps).ok()?;
    let qp = qps.as_array()?.iter().find(|qp| qp["lqpn"] == qpn)?;
    Some(Stand {
        first: hex_after(remote, "PSN 0x")?,
        expected: hex_after(failure, "expects PSN 0x")?,
        next: u32::try_from(qp["sq-psn"].as_u64()?).ok()?,
    })
}

fn hex_after(text: &str, label: &str) -> Option<u32> {
    let (_, rest) = text.split_once(label)?;
    u32::from_str_radix(rest.get(..6)?, 16).ok()
}

/// The output of a run that stalled after 625 messages of 1,024 packets, and 389 packets.
const STALLED: &str = include_str!("stalled.txt");

#[test]
fn a_stall_is_recognized_in_the_output() {
    let told = stand(STALLED).expect("PSNs");
    let come = told.expected - told.first;
    assert_eq!(come, 625 * 1024 + 389);
    assert!(is_theirs(STALLED, 1024), "{told:?}");
    // At the end of a message, the requester may have nothing to send.
    assert!(!is_theirs(STALLED, come as usize));
    // Packets in flight are retransmitted.
    let under_way = STALLED.replace("\"sq-psn\":13801385", "\"sq-psn\":13801386");
    assert!(!is_theirs(&under_way, 1024));
    assert!(!is_theirs("nothing of this", 1024));
}

/// As after 477 messages and 992 packets of a run: it was about to repeat two packets.
#[test]
fn a_stall_before_a_repetition_is_recognized_in_the_output() {
    let of_next = |next: u32| STALLED.replace("\"sq-psn\":13801385", &format!("\"sq-psn\":{next}"));
    assert!(is_theirs(&of_next(13_801_383), 1024));
    // Further back than it can go.
    assert!(!is_theirs(&of_next(13_801_385 - 1024), 1024));
}

/// The guest prints its PSNs in the expected form.
#[test]
fn the_guest_prints_its_psns() {
    let Some(lab) = Lab::get_or_skip() else {
        return;
    };
    let mut server = lab
        .guest(["stdbuf", "-o0", "ibv_rc_pingpong", "-g", "1"])
        .spawn()
        .expect("it starts");
    let address = server
        .wait_for_line("local address:", Duration::from_secs(60))
        .expect("its address");
    let theirs = address.replace("local", "remote");
    let failure = format!(
        "{theirs}\nexpects PSN 0x000001\n{}",
        describe(&lab, "ibv_rc_pingpong")
    );
    let stand = stand(&failure).unwrap_or_else(|| panic!("no PSNs in {failure}"));
    assert_eq!(stand.first, hex_after(&theirs, "PSN 0x").expect("a PSN"));
}
