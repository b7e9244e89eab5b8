//! Packets that a QP does not take, as people read them.

use super::explanation::write_lines;
use crate::{InWords, advice_on};
use core::fmt;
use roce_stack::{Mismatch, QpKind};
use serde::Serialize;
use std::net::IpAddr;

/// Packets that a QP drops because the two ends do not fit. The QP has not failed.
#[derive(Clone, Debug, Serialize)]
pub(super) struct UnfitPackets {
    process_id: u32,
    device: String,
    qpn: u32,
    /// `None` if no QP has the number.
    service: Option<String>,
    peer: IpAddr,
    /// The name of the counter of such packets.
    dropped: &'static str,
    why: String,
    advice: &'static [&'static str],
}

impl UnfitPackets {
    /// Packets that a QP of this kind, on the device of this name, does not take.
    #[cold]
    pub(super) fn new(device: &str, kind: Option<QpKind>, mismatch: &Mismatch) -> Self {
        Self {
            process_id: std::process::id(),
            device: device.to_owned(),
            qpn: mismatch.qpn.get(),
            service: kind.map(|kind| kind.to_string()),
            peer: mismatch.from,
            dropped: mismatch.reason.label(),
            why: InWords(mismatch).to_string(),
            advice: advice_on(mismatch),
        }
    }
}

impl fmt::Display for UnfitPackets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            process_id,
            device,
            qpn,
            service,
            dropped,
            why,
            ..
        } = self;
        write!(f, "QP {qpn:#08x} of {device} in process {process_id}")?;
        if let Some(service) = service {
            write!(f, ", {service}")?;
        }
        write!(f, ", drops packets: {dropped}\n  why       {why}")?;
        write_lines(f, "do", self.advice)
    }
}
