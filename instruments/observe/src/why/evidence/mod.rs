//! The evidence of why a QP failed, beyond the cause that the stack names: counters of the device, of its
//! port and of the kernel, and the path to the peer.

mod device;
mod kernel;
mod path;
mod port;
mod size;

pub(crate) use kernel::{KernelView, KernelWatch};
pub use port::{PacketsNotSent, packets_not_sent};

use crate::DeviceView;
use roce_stack::{Cause, Failure};
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

/// A fact that bears on a failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Finding {
    /// The observation, with its numbers.
    pub(super) fact: String,
    /// Its meaning, if it is likely to be the cause.
    pub(super) meaning: Option<Meaning>,
}

/// The meaning of a fact.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Meaning {
    pub(super) likely: &'static str,
    /// The advice about it.
    pub(super) advice: &'static str,
}

impl Finding {
    fn fact(fact: String) -> Self {
        let meaning = None;
        Self { fact, meaning }
    }
}

/// Where the evidence of lost packets is found: the kernel's counters since the datapath of a device has
/// started. There are none before, or if the kernel shows nothing. Clones share them.
#[derive(Clone, Debug, Default)]
pub struct Evidence(Arc<OnceLock<KernelWatch>>);

impl Evidence {
    /// Begins, as the datapath starts.
    pub(crate) fn begin(&self, interface: &str) {
        if let Some(watch) = KernelWatch::begin(interface) {
            let _ = self.0.set(watch);
        }
    }

    /// The kernel's counters, if they may show why a QP failed.
    pub(crate) fn of(&self, failure: &Failure) -> Option<&KernelWatch> {
        self.0.get().filter(|_| retries(failure).is_some())
    }
}

/// The retries that were used up, if packets got lost. Other failures are of the ends, and lost packets
/// have nothing to do with them.
fn retries(failure: &Failure) -> Option<u8> {
    match failure.cause {
        Cause::NoAnswer { retries, .. } | Cause::AlwaysLost { retries, .. } => Some(retries),
        _ => None,
    }
}

/// The findings about a failure. `kernel` is what the kernel shows, if that may have to do with the failure.
/// The findings that have a meaning come first, the most certain of them at the front.
pub(super) fn findings(
    DeviceView { nic, port, .. }: &DeviceView<'_>,
    kernel: Option<&KernelView<'_>>,
    failure: &Failure,
) -> Vec<Finding> {
    let status = nic.qp_status(failure.at, failure.qpn);
    let retries = retries(failure);
    let mut findings = Vec::new();
    if let (Some(status), Some(kernel)) = (&status, kernel) {
        let path = path::Path::of(status, failure, kernel);
        findings.extend(path.iter().filter_map(path::Path::link));
        findings.extend(path.iter().flat_map(path::Path::beyond_link));
    }
    if let Some(retries) = retries {
        let least = u64::from(retries).max(1);
        findings.extend(port::refusals(&port.each_counter(), least));
    }
    if let Some(status) = &status {
        findings.extend(device::about_qp(status, failure));
    }
    if let Some(kernel) = kernel {
        let dst = status.and_then(|status| status.path).map(|path| path.dst);
        let is_v6 = dst.is_some_and(|dst| dst.is_ipv6());
        add_uncertain(&mut findings, kernel.findings(is_v6));
    }
    let is_explained = findings.iter().any(|found| found.meaning.is_some());
    if let Some(status) = status.filter(|_| retries.is_some() && !is_explained) {
        findings.extend(size::unanswered(&status, failure));
    }
    findings.extend(device::drops(nic));
    findings
}

/// The findings about management datagrams that got lost between two addresses, of which each was
/// sent `least` times. Asks the kernel several times: no lock that packets need may be held.
pub(super) fn between(
    (src, dst): (IpAddr, IpAddr),
    least: u64,
    port_counters: &[(&'static str, u64)],
    Evidence(kernel): &Evidence,
) -> Vec<Finding> {
    let kernel = kernel.get().and_then(KernelWatch::look);
    let mut findings = Vec::new();
    if let Some(kernel) = &kernel {
        let path = path::Path::of_datagrams(src, dst, kernel);
        findings.extend(path.link());
        findings.extend(path.beyond_link());
    }
    findings.extend(port::refusals(port_counters, least));
    if let Some(kernel) = &kernel {
        add_uncertain(&mut findings, kernel.findings(dst.is_ipv6()));
    }
    findings
}

/// Adds what the kernel counts for all programs: a sign only where there is no better one.
fn add_uncertain(findings: &mut Vec<Finding>, more: Vec<Finding>) {
    let is_explained = findings.iter().any(|found| found.meaning.is_some());
    findings.extend(more.into_iter().map(|found| Finding {
        meaning: found.meaning.filter(|_| !is_explained),
        ..found
    }));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn finding(likely: Option<&'static str>) -> Finding {
        Finding {
            fact: String::new(),
            meaning: likely.map(|likely| Meaning { likely, advice: "" }),
        }
    }

    #[test]
    fn the_kernel_is_believed_where_there_is_no_better_sign() {
        let likely = |before: Option<&'static str>| {
            let mut findings = vec![finding(before)];
            add_uncertain(&mut findings, vec![finding(Some("kernel"))]);
            let meanings = findings.iter().filter_map(|found| found.meaning);
            meanings.map(|meaning| meaning.likely).collect::<Vec<_>>()
        };
        assert_eq!(likely(None), ["kernel"]);
        assert_eq!(likely(Some("port")), ["port"]);
    }
}
