//! One failure, as people read it.

use super::{Kind, kind_of_code};
use core::fmt;
use roce_stack::{Failure, QpStatus, WcStatus};

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
    /// What the device's counters show about it, in words.
    pub evidence: Vec<String>,
}

impl Explanation {
    /// What is known about failures of this kind.
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
            Some(status) => f.write_str(c_name(status)),
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
            write!(
                f,
                "\n  request   {} of {} bytes, wr_id {:#x}",
                request.opcode.label(),
                request.len,
                request.wr_id
            )?;
            if let Some(remote) = &request.remote {
                write!(
                    f,
                    ", at remote address {:#x} with rkey {:#010x}",
                    remote.addr, remote.rkey
                )?;
            }
        }
        write!(f, "\n  why       {}", self.failure.cause)?;
        for (number, line) in self.evidence.iter().enumerate() {
            let label = if number == 0 { "evidence" } else { "" };
            write!(f, "\n  {label:<9} {line}")?;
        }
        let code = self.failure.cause.code();
        let advice = self
            .kind()
            .into_iter()
            .flat_map(|kind| kind.advice_for(code));
        for (number, line) in advice.enumerate() {
            let label = if number == 0 { "do" } else { "" };
            write!(f, "\n  {label:<9} {line}")?;
        }
        write!(f, "\n  code      {code:#x}")
    }
}

/// The name of a status in C.
fn c_name(status: WcStatus) -> &'static str {
    match status {
        WcStatus::Success => "IBV_WC_SUCCESS",
        WcStatus::LocalLengthError => "IBV_WC_LOC_LEN_ERR",
        WcStatus::LocalProtectionError => "IBV_WC_LOC_PROT_ERR",
        WcStatus::WorkRequestFlushed => "IBV_WC_WR_FLUSH_ERR",
        WcStatus::MemoryWindowBindError => "IBV_WC_MW_BIND_ERR",
        WcStatus::BadResponse => "IBV_WC_BAD_RESP_ERR",
        WcStatus::LocalAccessError => "IBV_WC_LOC_ACCESS_ERR",
        WcStatus::RemoteInvalidRequest => "IBV_WC_REM_INV_REQ_ERR",
        WcStatus::RemoteAccessError => "IBV_WC_REM_ACCESS_ERR",
        WcStatus::RemoteOperationError => "IBV_WC_REM_OP_ERR",
        WcStatus::RetryExceeded => "IBV_WC_RETRY_EXC_ERR",
        WcStatus::RnrRetryExceeded => "IBV_WC_RNR_RETRY_EXC_ERR",
        other => other.label(),
    }
}
