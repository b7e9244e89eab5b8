//! The failed QPs of a running process, and what it waits for.

use super::codes::Meaning;
use super::losses::Loss;
use crate::error::Error;
use crate::top::plain;
use roce_verbs::observation::watch_processes;
use roce_verbs::why::{Cause, QpEventText, kind_of_code};
use serde::Serialize;
use std::time::Duration;

/// How long a process may take to answer.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Serialize)]
pub(super) struct FailedQp {
    process_id: u32,
    device: String,
    qpn: u32,
    service: String,
    why: String,
    #[serde(flatten)]
    meaning: Option<Meaning>,
    /// Its last events, oldest first.
    events: Vec<QpEventText>,
}

impl FailedQp {
    pub(super) fn text(&self) -> String {
        let (qpn, device, service) = (self.qpn, &self.device, &self.service);
        let mut text = format!("QP {qpn:#08x} of {device}, {service}: {}\n", self.why);
        text.push_str(
            &self
                .meaning
                .as_ref()
                .map_or_else(String::new, Meaning::text),
        );
        for (number, event) in self.events.iter().enumerate() {
            let label = if number == 0 { "events" } else { "" };
            text.push_str(&format!("  {label:<11} {event}\n"));
        }
        text
    }
}

/// An event, whose text is another process's.
fn of_another_process(event: &QpEventText) -> QpEventText {
    let mut event = event.clone();
    event.event = plain(&event.event, 256);
    event
}

/// A fault of a process.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Trouble {
    Qp(Box<FailedQp>),
    /// It waits for something.
    Wait(Loss),
}

impl Trouble {
    pub(super) fn text(&self) -> String {
        match self {
            Self::Qp(qp) => qp.text(),
            Self::Wait(wait) => format!("{wait}\n"),
        }
    }
}

/// The QPs of a process that have failed, but for those that the application itself moved to the error
/// state, and what the process waits for.
pub(super) fn troubles(pid: u32) -> Result<Vec<Trouble>, Error> {
    let found =
        watch_processes(PATIENCE).map_err(|error| Error::system("look for processes", error))?;
    let Some(process) = found.snapshots.iter().find(|process| process.pid == pid) else {
        return Err(Error::usage(format_args!(
            "process {pid} has no device open in this network namespace, or is another user's; `roce \
             top --once` lists those that have"
        )));
    };
    let waits = process.waits.iter();
    let waits = waits.map(|wait| Trouble::Wait(Loss::of_wait(pid, wait)));
    let mut failed: Vec<_> = Vec::new();
    for device in &process.devices {
        for qp in &device.qps {
            let (Some(why), Some(code)) = (&qp.why, qp.why_code) else {
                continue;
            };
            if code == Cause::Application.code() {
                continue;
            }
            failed.push(Trouble::Qp(Box::new(FailedQp {
                process_id: pid,
                // The texts are another process's.
                device: plain(&device.device, 64),
                qpn: qp.qpn,
                service: plain(&qp.service, 16),
                why: plain(why, 1024),
                meaning: kind_of_code(code).map(|kind| Meaning::of(code, kind)),
                events: qp.events.iter().map(of_another_process).collect(),
            })));
        }
    }
    failed.extend(waits);
    Ok(failed)
}
