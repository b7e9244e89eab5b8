//! Many QPs to many destinations, over UDP sockets: the cost of sockets for flows.

use super::wires::Sockets;
use super::{Many, Moved};
use crate::report::{Comparison, Goal};

/// The number of QPs.
pub const QPS: usize = 10_000;

/// The number of destinations.
pub const DESTINATIONS: usize = 1_000;

/// The length of a message, in bytes.
pub const MESSAGE: u32 = 16 << 10;

/// The default maximum number of flow sockets.
pub const FLOW_SOCKETS: usize = 128;

/// [`QPS`] QPs to [`DESTINATIONS`] addresses, with at most `flow_sockets` sockets for flows.
///
/// # Errors
/// If a socket or a QP can't be created.
pub fn connect_sockets(flow_sockets: usize) -> Result<Many<Sockets>, String> {
    Many::connect_over(Sockets::new(DESTINATIONS, flow_sockets)?, QPS, 2, MESSAGE)
}

/// Each QP WRITEs some messages, `messages` in all.
///
/// # Errors
/// If a message fails.
pub fn move_data(many: &mut Many<Sockets>, messages: u64) -> Result<Moved, String> {
    many.move_data(QPS, 1, messages)
}

/// Throughput with sockets for flows, and from port 4791 alone, in each of some runs.
///
/// # Errors
/// If a message fails.
pub fn compare(
    messages: u64,
    runs: u32,
    step: &dyn Fn(&'static str),
) -> Result<Comparison, String> {
    let mut measured = Vec::new();
    for _ in 0..runs {
        let mut rates = [0.0; 2];
        for (rate, flow_sockets) in rates.iter_mut().zip([FLOW_SOCKETS, 0]) {
            step("10,000 QPs");
            let mut many = connect_sockets(flow_sockets)?;
            *rate = move_data(&mut many, messages)?.bits_per_sec / 1e9;
        }
        measured.push((rates[0], rates[1]));
    }
    Ok(Comparison {
        what: "16 KiB WRITEs by 10,000 QPs to 1,000 destinations".into(),
        with: "all from port 4791",
        unit: "Gb/s",
        runs: measured,
        goal: Goal::AtLeast(0.9),
    })
}
