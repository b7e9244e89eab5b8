//! The options of links and switches in a description, and the defaults of missing ones.

use super::units::{Bytes, Faults, Percent, Rate, Time};
use super::{Link, NetworkError, Switch};
use crate::fabric::{BufferSpec, EcnSpec, LinkSpec, PfcSpec, SwitchSpec};
use roce_stack::Duration;
use serde::Deserialize;

/// The links of a description that says nothing about them.
pub(super) const DEFAULT_LINK: LinkSpec = LinkSpec {
    bits_per_sec: 1_000_000_000,
    delay: Duration::from_micros(10),
    max_packet_bytes: 4200,
    queue_bytes: 256 << 10,
    urgent_dscp: None,
};

/// A packet with 256 bytes of data and all headers is shorter.
const SMALLEST_PACKET: usize = 512;

/// The options of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct LinkOptions {
    pub(super) rate: Option<Rate>,
    pub(super) delay: Option<Time>,
    pub(super) queue: Option<Bytes>,
    pub(super) max_packet: Option<Bytes>,
    pub(super) urgent_dscp: Option<u8>,
    pub(super) faults: Option<Faults>,
}

/// The options of a switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct SwitchOptions {
    pub(super) ecn: Option<Ecn>,
    pub(super) pfc: Option<Pfc>,
    pub(super) buffer: Option<Buffer>,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Ecn {
    kmin: Bytes,
    kmax: Bytes,
    pmax: Percent,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Pfc {
    pause: Bytes,
    resume: Bytes,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Buffer {
    bytes: Bytes,
    headroom: Bytes,
    hysteresis: Bytes,
}

impl LinkOptions {
    /// Changes a link as these options say.
    pub(super) fn change(&self, link: &mut Link) -> Result<(), NetworkError> {
        let spec = &mut link.spec;
        if let Some(Rate(rate)) = self.rate {
            spec.bits_per_sec = rate;
        }
        if let Some(Time(delay)) = self.delay {
            spec.delay = delay;
        }
        if let Some(Bytes(bytes)) = self.max_packet {
            spec.max_packet_bytes = bytes;
        }
        if let Some(Bytes(bytes)) = self.queue {
            spec.queue_bytes = bytes;
        }
        if let Some(dscp) = self.urgent_dscp {
            spec.urgent_dscp = Some(dscp);
        }
        if let Some(Faults(faults)) = self.faults {
            link.faults = faults;
        }
        check_link(&link.spec)
    }
}

fn check_link(spec: &LinkSpec) -> Result<(), NetworkError> {
    let (queue, packet) = (spec.queue_bytes, spec.max_packet_bytes);
    if queue < packet {
        return Err(NetworkError::new(format!(
            "a queue of {queue} bytes should hold the largest packet, of {packet} bytes"
        )));
    }
    if packet < SMALLEST_PACKET {
        return Err(NetworkError::new(format!(
            "max_packet, {packet} bytes, should be at least {SMALLEST_PACKET}, for the smallest MTU"
        )));
    }
    match spec.urgent_dscp {
        Some(dscp) if dscp > 63 => Err(NetworkError::new(format!(
            "urgent_dscp = {dscp} should be a DSCP from 0 to 63"
        ))),
        _ => Ok(()),
    }
}

impl SwitchOptions {
    /// Changes a switch as these options say.
    pub(super) fn change(&self, switch: &mut Switch) -> Result<(), NetworkError> {
        let SwitchSpec { ecn, pfc, buffer } = &mut switch.spec;
        if let Some(said) = self.ecn {
            *ecn = Some(said.spec()?);
        }
        if let Some(said) = self.pfc {
            *pfc = Some(said.spec()?);
        }
        if let Some(said) = self.buffer {
            *buffer = Some(said.spec()?);
        }
        Ok(())
    }
}

impl Ecn {
    fn spec(self) -> Result<EcnSpec, NetworkError> {
        let (Bytes(kmin_bytes), Bytes(kmax_bytes)) = (self.kmin, self.kmax);
        if kmin_bytes > kmax_bytes {
            return Err(NetworkError::new(format!(
                "ecn: kmin, {kmin_bytes} bytes, should not exceed kmax, {kmax_bytes} bytes"
            )));
        }
        Ok(EcnSpec {
            kmin_bytes,
            kmax_bytes,
            pmax_percent: self.pmax.0,
        })
    }
}

impl Pfc {
    fn spec(self) -> Result<PfcSpec, NetworkError> {
        let (Bytes(pause_bytes), Bytes(resume_bytes)) = (self.pause, self.resume);
        if resume_bytes > pause_bytes {
            return Err(NetworkError::new(format!(
                "pfc: resume, {resume_bytes} bytes, should not exceed pause, {pause_bytes} bytes"
            )));
        }
        Ok(PfcSpec {
            pause_bytes,
            resume_bytes,
        })
    }
}

impl Buffer {
    fn spec(self) -> Result<BufferSpec, NetworkError> {
        let (Bytes(bytes), Bytes(headroom_bytes)) = (self.bytes, self.headroom);
        if headroom_bytes >= bytes {
            return Err(NetworkError::new(format!(
                "buffer: headroom, {headroom_bytes} bytes, should be less than bytes, {bytes}"
            )));
        }
        Ok(BufferSpec {
            bytes,
            headroom_bytes,
            hysteresis_bytes: self.hysteresis.0,
        })
    }
}
