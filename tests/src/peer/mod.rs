//! A Soft-RoCE peer in the guest, whose verbs a test calls from here.
//!
//! [`RxePeer`] is a process in the guest (lab/peer.py, over libibverbs) that holds
//! one device, one protection domain, and the regions, windows and queue pairs that the test
//! creates. It can be initiator or target of each RC operation:
//!
//! ```no_run
//! use roce_tests::lab::{HOST_IP4, Lab};
//! use roce_tests::peer::{Access, Connect, GidIndex, Operation, PairOptions, RxePeer, SendWork};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let (my_qpn, my_psn, my_addr, my_rkey) = (1, 2, 3, 4);
//! let Some(lab) = Lab::get_or_skip() else { return Ok(()) };
//! let mut peer = RxePeer::start(&lab, GidIndex::Ip4)?;
//! let region = peer.register(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
//! let pair = peer.create_pair(&PairOptions::default())?;
//! // Tell our own queue pair pair.qpn, peer.gid(), region.addr, region.rkey; then:
//! let remote_gid = HOST_IP4.to_ipv6_mapped();
//! peer.connect(&pair, &Connect::new(my_qpn, my_psn, remote_gid, peer.active_mtu()))?;
//! let write = Operation::Write { addr: my_addr, rkey: my_rkey };
//! peer.send(&pair, &SendWork::new(1, write, &[region.all()]))?;
//! let completion = peer.poll_one(&pair, Duration::from_secs(10))?;
//! assert!(completion.is_success());
//! # Ok(())
//! # }
//! ```

mod types;

use std::net::Ipv6Addr;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::lab::{GUEST_RDMA_DEVICE, GuestChild, Lab, LabError};

pub use types::{
    Access, Completion, Connect, GidIndex, Operation, Pair, PairOptions, PairState, Region,
    SendWork, Sge, Window,
};

/// Timeout of all commands to the guest, except for waiting for completions.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A process in the guest with an open Soft-RoCE device. Dropping this value kills the process,
/// with all of its queue pairs.
#[derive(Debug)]
pub struct RxePeer {
    child: GuestChild,
    gid: Ipv6Addr,
    active_mtu: u32,
}

impl RxePeer {
    /// Starts a peer that uses the GID with this index.
    pub fn start(lab: &Lab, gid_index: GidIndex) -> Result<Self, LabError> {
        #[derive(Deserialize)]
        struct Opened {
            gid: Ipv6Addr,
            active_mtu: u32,
        }
        let child = lab.guest_module("peer")?;
        let mut peer = Self {
            child,
            gid: Ipv6Addr::UNSPECIFIED,
            active_mtu: 0,
        };
        let gid_index = gid_index as u32;
        let opened: Opened = peer
            .call(json!({ "cmd": "open", "device": GUEST_RDMA_DEVICE, "gid_index": gid_index }))?;
        peer.gid = opened.gid;
        peer.active_mtu = opened.active_mtu;
        Ok(peer)
    }

    /// Its GID. An IPv4 address is mapped into IPv6.
    pub fn gid(&self) -> Ipv6Addr {
        self.gid
    }

    /// The largest path MTU in bytes that its link carried when it started.
    pub fn active_mtu(&self) -> u32 {
        self.active_mtu
    }

    /// Registers `length` bytes of zeros, aligned to a page.
    pub fn register(&mut self, length: u32, access: Access) -> Result<Region, LabError> {
        let request = json!({ "cmd": "register", "length": length, "access": access });
        let region: Region = self.call(request)?;
        Ok(Region { length, ..region })
    }

    /// Deregisters a region; its memory is freed.
    pub fn deregister(&mut self, region: &Region) -> Result<(), LabError> {
        self.close(region.mr)
    }

    /// Writes into a region, at an offset in bytes.
    pub fn write_memory(
        &mut self,
        region: &Region,
        offset: u32,
        bytes: &[u8],
    ) -> Result<(), LabError> {
        region.check(offset, bytes.len())?;
        let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
        let mr = region.mr;
        self.command(json!({ "cmd": "write_memory", "mr": mr, "offset": offset, "hex": hex }))
    }

    /// Reads `length` bytes of a region, from an offset in bytes on.
    pub fn read_memory(
        &mut self,
        region: &Region,
        offset: u32,
        length: u32,
    ) -> Result<Vec<u8>, LabError> {
        #[derive(Deserialize)]
        struct Memory {
            hex: String,
        }
        region.check(offset, length as usize)?;
        let mr = region.mr;
        let request = json!({ "cmd": "read_memory", "mr": mr, "offset": offset, "length": length });
        let memory: Memory = self.call(request)?;
        from_hex(&memory.hex)
    }

    /// Creates a memory window of type 2, not yet bound to memory.
    pub fn create_window(&mut self) -> Result<Window, LabError> {
        self.call(json!({ "cmd": "window", "type": 2 }))
    }

    /// Creates a memory window of type 1, not yet bound to memory.
    pub fn create_window_of_type_1(&mut self) -> Result<Window, LabError> {
        self.call(json!({ "cmd": "window", "type": 1 }))
    }

    /// Posts the binding of a window to a part of a region registered with
    /// [`Access::MW_BIND`]. Returns the window's key, which is valid after the completion
    /// (`BIND_MW`).
    pub fn bind(
        &mut self,
        pair: &Pair,
        wr_id: u64,
        window: &Window,
        part: &Sge,
        access: Access,
    ) -> Result<u32, LabError> {
        self.bind_by("bind", pair, wr_id, window, part, access)
    }

    /// The same for a window of type 1, whose key the driver chooses.
    pub fn bind_of_type_1(
        &mut self,
        pair: &Pair,
        wr_id: u64,
        window: &Window,
        part: &Sge,
        access: Access,
    ) -> Result<u32, LabError> {
        self.bind_by("bind_verb", pair, wr_id, window, part, access)
    }

    fn bind_by(
        &mut self,
        command: &str,
        pair: &Pair,
        wr_id: u64,
        window: &Window,
        part: &Sge,
        access: Access,
    ) -> Result<u32, LabError> {
        #[derive(Deserialize)]
        struct Bound {
            rkey: u32,
        }
        let bound: Bound = self.call(json!({
            "cmd": command, "qp": pair.qp, "wr_id": wr_id, "mw": window.mw, "mr": part.mr,
            "offset": part.offset, "length": part.length, "access": access,
        }))?;
        Ok(bound.rkey)
    }

    /// Frees a window.
    pub fn free_window(&mut self, window: &Window) -> Result<(), LabError> {
        self.close(window.mw)
    }

    /// Creates an RC queue pair, with its own completion queue for both sends and receives.
    pub fn create_pair(&mut self, options: &PairOptions) -> Result<Pair, LabError> {
        let PairOptions { depth, sges } = options;
        self.call(json!({ "cmd": "pair", "depth": depth, "sges": sges }))
    }

    /// Brings a queue pair from RESET to RTS.
    pub fn connect(&mut self, pair: &Pair, connect: &Connect) -> Result<(), LabError> {
        self.command(with_command("connect", pair, connect)?)
    }

    /// Moves a queue pair to the error state.
    pub fn fail_pair(&mut self, pair: &Pair) -> Result<(), LabError> {
        self.command(json!({ "cmd": "fail", "qp": pair.qp }))
    }

    /// State and sequence numbers of a queue pair.
    pub fn query_pair(&mut self, pair: &Pair) -> Result<PairState, LabError> {
        self.call(json!({ "cmd": "query", "qp": pair.qp }))
    }

    /// Destroys a queue pair and its completion queue.
    pub fn destroy_pair(&mut self, pair: &Pair) -> Result<(), LabError> {
        self.close(pair.qp)
    }

    /// Posts a receive.
    pub fn receive(&mut self, pair: &Pair, wr_id: u64, sges: &[Sge]) -> Result<(), LabError> {
        self.command(json!({ "cmd": "receive", "qp": pair.qp, "wr_id": wr_id, "sges": sges }))
    }

    /// Posts a work request to the send queue.
    pub fn send(&mut self, pair: &Pair, work: &SendWork) -> Result<(), LabError> {
        self.command(with_command("send", pair, work)?)
    }

    /// Polls for completions until there are `count` of them or `timeout` has passed, and returns
    /// them.
    pub fn poll(
        &mut self,
        pair: &Pair,
        count: usize,
        timeout: Duration,
    ) -> Result<Vec<Completion>, LabError> {
        #[derive(Deserialize)]
        struct Polled {
            completions: Vec<Completion>,
        }
        let milliseconds = u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX);
        let polled: Polled = self.call_within(
            json!({ "cmd": "poll", "qp": pair.qp, "count": count, "milliseconds": milliseconds }),
            timeout.saturating_add(TIMEOUT),
        )?;
        Ok(polled.completions)
    }

    /// Polls for the next completion.
    ///
    /// # Errors
    /// If there is none within `timeout`.
    pub fn poll_one(&mut self, pair: &Pair, timeout: Duration) -> Result<Completion, LabError> {
        self.poll(pair, 1, timeout)?.pop().ok_or_else(|| {
            LabError::new(format!(
                "no completion of the guest's QP {} in {timeout:?}",
                pair.qpn
            ))
        })
    }

    /// Ends the process; returns when its queue pairs are gone.
    pub fn kill(self) -> Result<(), LabError> {
        self.child.kill().map(drop)
    }

    fn close(&mut self, id: u32) -> Result<(), LabError> {
        self.command(json!({ "cmd": "close", "id": id }))
    }

    /// Sends a command whose reply contains no data.
    fn command(&mut self, request: Value) -> Result<(), LabError> {
        self.call::<Value>(request).map(drop)
    }

    fn call<T: DeserializeOwned>(&mut self, request: Value) -> Result<T, LabError> {
        self.call_within(request, TIMEOUT)
    }

    fn call_within<T: DeserializeOwned>(
        &mut self,
        request: Value,
        timeout: Duration,
    ) -> Result<T, LabError> {
        let command = request["cmd"].as_str().unwrap_or_default().to_owned();
        self.child.write(format!("{request}\n").as_bytes())?;
        let line = self.child.read_line(timeout)?;
        let unreadable = |e| LabError::new(format!("the peer answers {line:?} to {command}: {e}"));
        let mut answer: Value = serde_json::from_str(&line).map_err(unreadable)?;
        if let Some(error) = answer["error"].as_str() {
            return Err(LabError::new(format!("in the guest, {command}: {error}")));
        }
        serde_json::from_value(answer["ok"].take()).map_err(unreadable)
    }
}

/// The fields of `value` as a command to `pair`.
fn with_command(
    command: &str,
    pair: &Pair,
    value: &impl serde::Serialize,
) -> Result<Value, LabError> {
    let mut request =
        serde_json::to_value(value).map_err(|e| LabError::new(format!("{command}: {e}")))?;
    request["cmd"] = command.into();
    request["qp"] = pair.qp.into();
    Ok(request)
}

fn from_hex(text: &str) -> Result<Vec<u8>, LabError> {
    let digit = |byte: u8| {
        char::from(byte)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    text.as_bytes()
        .chunks(2)
        .map(|pair| match pair {
            &[high, low] => Some(digit(high)? << 4 | digit(low)?),
            _ => None,
        })
        .collect::<Option<_>>()
        .ok_or_else(|| LabError::new("the peer's memory is not in hex"))
}
