//! The data that a peer needs to connect to a QP.

#[cfg(feature = "serde")]
mod serialized;

use crate::gid::Gid;
use roce_wire::{Psn, Qpn};
use std::fmt;
use std::str::FromStr;

/// The data that a peer needs to connect to a QP. Programs exchange it by their own means, as text
/// or through serde, with the feature `serde`:
///
/// ```
/// # use roce_verbs::Endpoint;
/// let text = "::ffff:10.0.0.1/0x12/0x3456";       // GID, QP number, PSN
/// let endpoint: Endpoint = text.parse()?;
/// assert_eq!(endpoint.to_string(), text);
/// # Ok::<(), roce_verbs::qp::ParseEndpointError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The QP's GID.
    pub gid: Gid,
    /// The QP's number.
    pub qpn: Qpn,
    /// The first PSN that the QP sends. In a message of communication management, the PSN is the
    /// first one that the message's sender expects to receive: see
    /// [`QueuePair::connect_with`](crate::QueuePair::connect_with).
    pub psn: Psn,
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (qpn, psn) = (self.qpn.get(), self.psn.get());
        write!(f, "{}/{qpn:#x}/{psn:#x}", self.gid)
    }
}

/// The error for text that is not an [`Endpoint`].
#[derive(Clone, PartialEq, Eq)]
pub struct ParseEndpointError(String);

impl fmt::Display for ParseEndpointError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is not an endpoint: expected GID/QPN/PSN, with 24-bit numbers in hexadecimal, as \
             in ::ffff:10.0.0.1/0x12/0x3456",
            self.0
        )
    }
}

debug_as_display!(ParseEndpointError);

impl std::error::Error for ParseEndpointError {}

impl FromStr for Endpoint {
    type Err = ParseEndpointError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |digits: &str| u32::from_str_radix(digits.strip_prefix("0x")?, 16).ok();
        let parsed = || {
            let (rest, psn) = text.rsplit_once('/')?;
            let (gid, qpn) = rest.rsplit_once('/')?;
            Some(Self {
                gid: gid.parse().ok()?,
                qpn: Qpn::new(number(qpn)?)?,
                psn: Psn::try_new(number(psn)?)?,
            })
        };
        parsed().ok_or_else(|| ParseEndpointError(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_and_json_round_trip() {
        for gid in ["fe80::1", "10.0.0.1"] {
            let endpoint = Endpoint {
                gid: gid.parse().expect("a GID"),
                qpn: Qpn::from_bits(u32::MAX),
                psn: Psn::ZERO,
            };
            assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
            let json = serde_json::to_string(&endpoint).expect("serialized");
            let read: Endpoint = serde_json::from_str(&json).expect("deserialized");
            assert_eq!(read, endpoint, "{json}");
        }
    }

    #[test]
    fn invalid_endpoints_are_refused() {
        for text in [
            "",
            "::1",
            "::1/0x1",
            "::1/1/2",
            "::1/0x1000000/0x1",
            "::1/0x1/0x1000000",
            "x/0x1/0x1",
        ] {
            let error = text.parse::<Endpoint>().expect_err(text);
            assert!(error.to_string().contains(text), "{error}");
        }
        let json = r#"{"gid":"::1","qpn":16777216,"psn":0}"#;
        let error = serde_json::from_str::<Endpoint>(json).expect_err("25 bits");
        assert!(error.to_string().contains("0x1000000"), "{error}");
    }
}
