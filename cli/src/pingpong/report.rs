//! The output: the lines of ibv_rc_pingpong, or JSON.

use roce_trust::output;
use std::fmt::Arguments;
use std::time::Duration;

use serde::Serialize;

use super::PingpongError;
use super::exchange::Address;
use super::plan::Plan;

/// The result of a run.
#[derive(Debug, Serialize)]
pub(super) struct Report {
    role: &'static str,
    /// The transport service: "RC", "UC" or "UD".
    service: String,
    device: String,
    gid_index: u8,
    path_mtu: usize,
    local: End,
    remote: End,
    message_bytes: usize,
    iters: u64,
    /// The sum of both directions.
    bytes: u64,
    seconds: f64,
    mbit_per_second: f64,
    usec_per_iter: f64,
    events: bool,
    checked: bool,
}

#[derive(Debug, Serialize)]
struct End {
    lid: u16,
    qpn: u32,
    psn: u32,
    gid: String,
}

impl From<&Address> for End {
    fn from(address: &Address) -> Self {
        Self {
            lid: address.lid,
            qpn: address.qpn.get(),
            psn: address.psn.get(),
            gid: address.gid.to_string(),
        }
    }
}

impl Report {
    pub(super) fn new(plan: &Plan, local: &Address, remote: &Address, elapsed: Duration) -> Self {
        let bytes = plan.size as u64 * plan.iters * 2;
        let usec = elapsed.as_secs_f64() * 1e6;
        Self {
            role: if plan.host.is_some() {
                "client"
            } else {
                "server"
            },
            service: plan.kind.to_string(),
            device: plan.device.name(),
            gid_index: plan.gid.index,
            path_mtu: plan.mtu.bytes(),
            local: local.into(),
            remote: remote.into(),
            message_bytes: plan.size,
            iters: plan.iters,
            bytes,
            seconds: elapsed.as_secs_f64(),
            mbit_per_second: bytes as f64 * 8.0 / usec,
            usec_per_iter: usec / plan.iters as f64,
            events: plan.events,
            checked: plan.check,
        }
    }

    pub(super) fn print(&self, json: bool) -> Result<(), PingpongError> {
        if json {
            let text = serde_json::to_string_pretty(self);
            let text = text.map_err(|error| PingpongError::new(error.to_string()))?;
            return print(format_args!("{text}\n"));
        }
        print(format_args!(
            "{} bytes in {:.2} seconds = {:.2} Mbit/sec\n{} iters in {:.2} seconds = {:.2} usec/iter\n",
            self.bytes,
            self.seconds,
            self.mbit_per_second,
            self.iters,
            self.seconds,
            self.usec_per_iter
        ))
    }
}

/// Prints the address of our QP.
pub(super) fn local(plan: &Plan, address: &Address) -> Result<(), PingpongError> {
    line(plan, &format!("  local address:  {address}"))
}

/// Prints the address of the peer's QP.
pub(super) fn remote(plan: &Plan, address: &Address) -> Result<(), PingpongError> {
    line(plan, &format!("  remote address: {address}"))
}

fn line(plan: &Plan, text: &str) -> Result<(), PingpongError> {
    if plan.json {
        return Ok(());
    }
    print(format_args!("{text}\n"))
}

fn print(text: Arguments<'_>) -> Result<(), PingpongError> {
    output::print(text).map_err(|error| PingpongError::new(error.to_string()))
}
