//! The UDP header of RoCEv2.

/// The UDP destination port of RoCEv2 (RoCEv2 Annex A17.3.2.2).
// rule: CA17-20-port
pub const UDP_PORT: u16 = 4791;

/// The UDP header except its length, which follows from that of the transport packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UdpHeader {
    /// Source port: any, chosen by the sender to spread flows over paths.
    pub src_port: u16,
    /// Destination port, [`UDP_PORT`].
    pub dst_port: u16,
    // rule: A17.3.2.4-checksum
    /// Checksum as it is on the wire; 0 means none.
    pub checksum: u16,
}
