//! One failure, as people read it.

use super::events::{QpEventText, lines};
use super::evidence::{Evidence, KernelView, KernelWatch, findings};
use super::{Kind, kind_of_code};
use crate::{DeviceView, InWords, WatchedDevice};
use core::fmt;
use roce_stack::{Failure, QpStatus, WcOpcode, WcStatus};
use roce_wire::Qpn;
use serde::{Serialize, Serializer};
use std::net::IpAddr;

/// Why a QP failed, with the evidence and what to do.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Explanation {
    /// The device.
    pub device: String,
    /// The process.
    pub process_id: u32,
    /// The status of the QP; `None` if it no longer exists. Its queues have been flushed:
    /// [`Failure::queued`] has what was in them.
    pub status: Option<QpStatus>,
    /// The failure.
    pub failure: Failure,
    /// The likely cause of lost packets, if the evidence points to one.
    pub likely: Option<String>,
    /// The evidence in counters of the device, of its port and of the kernel, and the path to the
    /// peer, in words.
    pub evidence: Vec<String>,
    /// The advice, the most likely help first.
    pub advice: Vec<String>,
    /// The file that has the packets of the QP, in words, if they were asked for.
    pub packets: Option<String>,
    /// The last events of the QP, oldest first: up to 32. The text has the newest of them.
    pub events: Vec<QpEventText>,
}

impl Explanation {
    /// Why a QP of the device with this name failed. `None` if it has not failed, or no longer exists.
    pub fn of_qp(
        name: &str,
        device: &dyn WatchedDevice,
        evidence: &Evidence,
        qpn: Qpn,
    ) -> Option<Self> {
        let mut found = None;
        device.look(&mut |view| found = view.nic.failure(qpn).copied());
        let failure = found?;
        // No packet would move meanwhile if the device were locked.
        let kernel = evidence.of(&failure).and_then(KernelWatch::look);
        let mut explanation = None;
        device.look(&mut |view| {
            let still_failed = view.nic.failure(qpn);
            explanation = still_failed.map(|_| Self::new(name, failure, view, kernel.as_ref()));
        });
        explanation
    }

    /// Explains a failure. `kernel` is what the kernel shows, if that may have to do with it.
    #[cold]
    pub(super) fn new(
        device: &str,
        failure: Failure,
        view: &DeviceView<'_>,
        kernel: Option<&KernelView<'_>>,
    ) -> Self {
        let findings = findings(view, kernel, &failure);
        let meanings: Vec<_> = findings.iter().filter_map(|found| found.meaning).collect();
        let code = failure.cause.code();
        let mut advice: Vec<String> = Vec::new();
        for text in meanings.iter().map(|meaning| meaning.advice) {
            if !advice.iter().any(|known| known == text) {
                advice.push(text.to_owned());
            }
        }
        match advice.as_slice() {
            [] => {
                let kind = kind_of_code(code).into_iter();
                let usual = kind.flat_map(|kind| kind.advice_for(code));
                advice.extend(usual.map(str::to_owned));
            }
            _ => advice.push(format!("if that is not it: `roce why {code:#x}`")),
        }
        Self {
            device: device.to_owned(),
            process_id: std::process::id(),
            status: view.nic.qp_status(failure.at, failure.qpn),
            failure,
            likely: meanings.first().map(|meaning| meaning.likely.to_owned()),
            evidence: findings.into_iter().map(|found| found.fact).collect(),
            advice,
            packets: None,
            events: QpEventText::all(failure.at, &view.nic.recorded(failure.qpn)),
        }
    }

    /// The text about failures of this kind.
    pub fn kind(&self) -> Option<&'static Kind> {
        kind_of_code(self.failure.cause.code())
    }

    fn write_heading(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            device, process_id, ..
        } = self;
        write!(
            f,
            "QP {} of {device} in process {process_id}",
            self.failure.qpn
        )?;
        if let Some(status) = &self.status {
            write!(f, ", {}", status.kind)?;
            if let (Some(path), Some(peer)) = (status.path, status.peer) {
                write!(f, ", to QP {peer} at {}", path.dst)?;
            }
        }
        f.write_str(" failed: ")?;
        match self.failure.status {
            Some(status) => f.write_str(status.c_name()),
            None => f.write_str(match self.kind() {
                Some(kind) if !kind.event.is_empty() => kind.event,
                _ => "no completion reports it",
            }),
        }
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.write_heading(f)?;
        if let Some(request) = &self.failure.request {
            write!(f, "\n  request   {}", request.opcode.label())?;
            // An invalidation has a key alone.
            if request.opcode != WcOpcode::LocalInv {
                write!(f, " of {} bytes", request.len)?;
            }
            write!(f, ", wr_id {:#x}", request.wr_id)?;
            if let Some(remote) = &request.remote {
                write!(
                    f,
                    ", at remote address {:#x} with rkey {:#010x}",
                    remote.addr, remote.rkey
                )?;
            }
        }
        write!(f, "\n  why       {}", InWords(&self.failure.cause))?;
        if let Some(likely) = &self.likely {
            write!(f, "\n  likely    {likely}")?;
        }
        write_lines(f, "evidence", &self.evidence)?;
        write_lines(f, "do", &self.advice)?;
        write!(f, "\n  code      {:#x}", self.failure.cause.code())?;
        write_lines(f, "packets", self.packets.as_slice())?;
        write_lines(f, "events", &lines(&self.events))
    }
}

/// As one JSON object. Keys and addresses are numbers; `status` is a name in C.
impl Serialize for Explanation {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let failure = &self.failure;
        let path = self.status.as_ref().and_then(|status| status.path);
        let peer = self.status.as_ref().and_then(|status| status.peer);
        let request = failure.request.as_ref().map(|request| RequestRecord {
            wr_id: request.wr_id,
            opcode: request.opcode.label(),
            bytes: request.len,
            remote_addr: request.remote.map(|remote| remote.addr),
            rkey: request.remote.map(|remote| remote.rkey),
        });
        let record = Record {
            process_id: self.process_id,
            device: &self.device,
            qpn: failure.qpn.get(),
            service: self.status.as_ref().map(|status| status.kind.to_string()),
            peer: path.map(|path| path.dst),
            peer_qpn: peer.map(Qpn::get),
            status: failure.status.map(WcStatus::c_name),
            event: match failure.status {
                Some(_) => None,
                None => self.kind().map(|kind| kind.event),
            },
            request,
            why: InWords(&failure.cause).to_string(),
            why_code: failure.cause.code(),
            likely: self.likely.as_deref(),
            evidence: &self.evidence,
            advice: &self.advice,
            packets: self.packets.as_deref(),
            events: &self.events,
        };
        record.serialize(serializer)
    }
}

#[derive(Serialize)]
struct Record<'a> {
    process_id: u32,
    device: &'a str,
    qpn: u32,
    service: Option<String>,
    peer: Option<IpAddr>,
    peer_qpn: Option<u32>,
    status: Option<&'static str>,
    event: Option<&'static str>,
    request: Option<RequestRecord>,
    why: String,
    why_code: u32,
    likely: Option<&'a str>,
    evidence: &'a [String],
    advice: &'a [String],
    packets: Option<&'a str>,
    events: &'a [QpEventText],
}

#[derive(Serialize)]
struct RequestRecord {
    wr_id: u64,
    opcode: &'static str,
    bytes: u32,
    remote_addr: Option<u64>,
    rkey: Option<u32>,
}

/// Writes lines, the first of which has a label.
pub(super) fn write_lines(
    f: &mut fmt::Formatter<'_>,
    label: &str,
    lines: &[impl fmt::Display],
) -> fmt::Result {
    for (number, line) in lines.iter().enumerate() {
        let label = if number == 0 { label } else { "" };
        write!(f, "\n  {label:<9} {line}")?;
    }
    Ok(())
}
