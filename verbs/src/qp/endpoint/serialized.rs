//! An endpoint through serde: a record of its parts.

use super::{Endpoint, ParseEndpointError};
use roce_wire::{Psn, Qpn};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

#[derive(Serialize, Deserialize)]
struct SerializedEndpoint {
    gid: String,
    qpn: u32,
    psn: u32,
}

impl From<Endpoint> for SerializedEndpoint {
    fn from(endpoint: Endpoint) -> Self {
        Self {
            gid: endpoint.gid.to_string(),
            qpn: endpoint.qpn.get(),
            psn: endpoint.psn.get(),
        }
    }
}

impl TryFrom<SerializedEndpoint> for Endpoint {
    type Error = ParseEndpointError;

    fn try_from(serialized: SerializedEndpoint) -> Result<Self, Self::Error> {
        let SerializedEndpoint { gid, qpn, psn } = serialized;
        let parse = || {
            Some(Self {
                gid: gid.parse().ok()?,
                qpn: Qpn::new(qpn)?,
                psn: Psn::try_new(psn)?,
            })
        };
        parse().ok_or_else(|| ParseEndpointError(format!("{gid}/{qpn:#x}/{psn:#x}")))
    }
}

impl Serialize for Endpoint {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        SerializedEndpoint::from(*self).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Endpoint {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let serialized = SerializedEndpoint::deserialize(deserializer)?;
        serialized.try_into().map_err(serde::de::Error::custom)
    }
}
