//! In the place of injected faults, in programs that are built without the feature `faults`: none
//! exists.

use crate::error::OpenError;
use crate::runtime::DeviceState;
use crate::settings::OpenOptions;
use roce_port::LinkGate;
use roce_port::fault::FaultLayer;
use roce_stack::Nic;
use roce_wire::Qpn;
use std::io;
use std::net::IpAddr;
use std::sync::Arc;

pub(crate) enum Faults {}

pub(crate) enum Judge {}

pub(crate) enum Injections {}

impl Injections {
    pub(crate) fn new(faults: Faults, _: Arc<Judge>, _: &mut Nic) -> Self {
        match faults {}
    }

    pub(crate) fn layer(&self) -> Option<FaultLayer> {
        match *self {}
    }

    pub(crate) fn gate(&self) -> Option<LinkGate> {
        match *self {}
    }

    pub(crate) fn start(&mut self, _: &Arc<DeviceState>) -> io::Result<()> {
        match *self {}
    }

    pub(crate) fn request_judge(&self) -> Option<RequestJudge> {
        match *self {}
    }

    pub(crate) fn note_new_qp(&self, _: Qpn) {
        match *self {}
    }

    pub(crate) fn strikes_region(&self) -> bool {
        match *self {}
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        match *self {}
    }
}

pub(crate) enum RequestJudge {}

#[expect(dead_code, reason = "nothing makes one")]
pub(crate) enum RequestFault {
    Reject(u16),
    Ignored,
}

impl RequestJudge {
    pub(crate) fn decide(&mut self, _: IpAddr, _: &[u8]) -> Option<RequestFault> {
        match *self {}
    }
}

impl OpenOptions {
    pub(crate) fn injected(&self) -> Result<Option<(Faults, Arc<Judge>)>, OpenError> {
        Ok(None)
    }
}
