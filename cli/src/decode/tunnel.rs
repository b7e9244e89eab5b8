//! Headers around a RoCE frame: the encapsulations that switches mirror with (ERSPAN, GRE, VXLAN), other
//! tunnels, and more tags in front of IP than a RoCE frame may have.
//!
//! ```text
//! Ethernet ─► tags ─► IP ─┬─► UDP ─┬─► the RoCE packet
//!    ▲                ▲   │        ├─► VXLAN, Geneve ─► Ethernet, IP
//!    │                │   ├─► GRE ─┴─► ERSPAN ────────► Ethernet
//!    └── around again ┴───┴─► IP, MPLS, PPPoE ────────► IP
//! ```

use roce_wire::UDP_PORT;
use std::fmt;

/// The most headers to walk through. A packet that has more is hostile.
const MOST_HEADERS: usize = 24;

/// The most encapsulations that are reported, the outermost first.
const MOST_REPORTED: usize = 4;

const ETHERTYPE_IPV4: u16 = 0x0800;
const ETHERTYPE_IPV6: u16 = 0x86dd;
const ETHERTYPE_ROCE_V1: u16 = 0x8915;
/// Ethernet in GRE or Geneve.
const ETHERTYPE_BRIDGING: u16 = 0x6558;
const ETHERTYPE_ERSPAN_1_2: u16 = 0x88be;
const ETHERTYPE_ERSPAN_3: u16 = 0x22eb;
const ETHERTYPES_MPLS: [u16; 2] = [0x8847, 0x8848];
const ETHERTYPE_PPPOE: u16 = 0x8864;
/// 802.1Q, 802.1ad, and the numbers that switches used for stacked tags before 802.1ad.
const ETHERTYPES_TAG: [u16; 4] = [0x8100, 0x88a8, 0x9100, 0x9200];
/// The tags that a RoCE frame may have, and their largest number.
const ORDINARY_TAGS: [u16; 2] = [0x8100, 0x88a8];
const MOST_ORDINARY_TAGS: u32 = 2;

const PROTOCOL_IPV4: u8 = 4;
const PROTOCOL_UDP: u8 = 17;
const PROTOCOL_IPV6: u8 = 41;
const PROTOCOL_GRE: u8 = 47;
const PROTOCOL_MPLS: u8 = 137;
/// Hop-by-hop options, routing, destination options and authentication.
const IPV6_EXTENSIONS: [u8; 4] = [0, 43, 60, 51];
const IPV6_AUTHENTICATION: u8 = 51;

/// The assigned port, and the one that Linux used before.
const PORTS_VXLAN: [u16; 2] = [4789, 8472];
const PORT_GENEVE: u16 = 6081;
const PORT_MPLS: u16 = 6635;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Encapsulation {
    pub(super) name: &'static str,
    /// The number that tells several of its kind apart: a session, a network or a key.
    id: Option<u32>,
}

impl fmt::Display for Encapsulation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "{} {id}", self.name),
            None => f.write_str(self.name),
        }
    }
}

/// The encapsulations of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Tunnel([Option<Encapsulation>; MOST_REPORTED]);

impl Tunnel {
    /// From the outermost to the innermost, as far as they are reported.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Encapsulation> {
        self.0.iter().flatten()
    }

    fn push(&mut self, name: &'static str, id: Option<u32>) {
        if let Some(free) = self.0.iter_mut().find(|place| place.is_none()) {
            *free = Some(Encapsulation { name, id });
        }
    }
}

/// The kind of header that follows another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    Ethernet,
    EtherType(u16),
    /// The protocol with this number of IP.
    Protocol(u8),
}

/// A RoCE frame inside of others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Inner {
    pub(super) at: usize,
    /// Its first header: [`Next::Ethernet`] or [`Next::EtherType`].
    pub(super) begins_with: Next,
    /// Whether IPv6 extension headers are in front of its UDP header. RoCEv2 has none, and its ICRC is not
    /// defined with them.
    pub(super) has_extensions: bool,
    pub(super) tunnel: Tunnel,
}

/// Finds a RoCE frame that goes to one of `ports` or to [`UDP_PORT`], in the headers that begin with `next` at `at`.
pub(super) fn find(bytes: &[u8], at: usize, next: Next, ports: &[u16]) -> Option<Inner> {
    let mut walk = Walk {
        bytes,
        at,
        inner: Inner {
            at,
            begins_with: next,
            has_extensions: false,
            tunnel: Tunnel::default(),
        },
        tags: 0,
        is_ordinary: true,
    };
    let mut next = next;
    for _ in 0..MOST_HEADERS {
        next = match next {
            Next::Ethernet => walk.ethernet()?,
            Next::EtherType(ETHERTYPE_ROCE_V1) => {
                walk.enter_network(next);
                return Some(walk.inner);
            }
            Next::EtherType(ethertype) => walk.ethertype(ethertype)?,
            Next::Protocol(PROTOCOL_UDP) => {
                let port = walk.u16(2)?;
                if port == UDP_PORT || ports.contains(&port) {
                    return Some(walk.inner);
                }
                walk.udp(port)?
            }
            Next::Protocol(protocol) => walk.protocol(protocol)?,
        };
    }
    None
}

/// A position in a packet, and what was found up to there.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The innermost frame so far.
    inner: Inner,
    /// Tags since the last Ethernet header, and whether a RoCE frame may have them.
    tags: u32,
    is_ordinary: bool,
}

impl Walk<'_> {
    fn u8(&self, at: usize) -> Option<u8> {
        self.bytes.get(self.at.checked_add(at)?).copied()
    }

    fn u16(&self, at: usize) -> Option<u16> {
        Some(u16::from_be_bytes([self.u8(at)?, self.u8(at + 1)?]))
    }

    fn u32(&self, at: usize) -> Option<u32> {
        let high = u32::from(self.u16(at)?);
        Some(high << 16 | u32::from(self.u16(at + 2)?))
    }

    fn skip(&mut self, len: usize) {
        self.at = self.at.saturating_add(len);
    }

    /// Notes an encapsulation, whose header of `len` bytes ends before `next`.
    fn encapsulated(
        &mut self,
        name: &'static str,
        id: Option<u32>,
        len: usize,
        next: Next,
    ) -> Next {
        self.inner.tunnel.push(name, id);
        self.skip(len);
        self.inner.at = self.at;
        self.inner.begins_with = next;
        next
    }

    fn ethernet(&mut self) -> Option<Next> {
        self.inner.at = self.at;
        self.inner.begins_with = Next::Ethernet;
        (self.tags, self.is_ordinary) = (0, true);
        let ethertype = self.u16(12)?;
        self.skip(14);
        Some(Next::EtherType(ethertype))
    }

    /// The next header is IP or a GRH. If what is in front of it is not an ordinary Ethernet header, the
    /// frame begins here.
    fn enter_network(&mut self, next: Next) {
        self.inner.has_extensions = false;
        let begins_here = match self.inner.begins_with {
            Next::Ethernet if self.is_ordinary => false,
            Next::Ethernet => {
                self.inner.tunnel.push("VLAN tags", Some(self.tags));
                true
            }
            _ => true,
        };
        if begins_here {
            self.inner.at = self.at;
            self.inner.begins_with = next;
        }
    }

    fn ethertype(&mut self, ethertype: u16) -> Option<Next> {
        match ethertype {
            ETHERTYPE_IPV4 => self.ipv4(),
            ETHERTYPE_IPV6 => self.ipv6(),
            ETHERTYPE_PPPOE => {
                let session = u32::from(self.u16(2)?);
                let next = match self.u16(6)? {
                    0x21 => ETHERTYPE_IPV4,
                    0x57 => ETHERTYPE_IPV6,
                    _ => return None,
                };
                Some(self.encapsulated("PPPoE", Some(session), 8, Next::EtherType(next)))
            }
            tag if ETHERTYPES_TAG.contains(&tag) => {
                self.tags += 1;
                self.is_ordinary &= ORDINARY_TAGS.contains(&tag) && self.tags <= MOST_ORDINARY_TAGS;
                let ethertype = self.u16(2)?;
                self.skip(4);
                Some(Next::EtherType(ethertype))
            }
            mpls if ETHERTYPES_MPLS.contains(&mpls) => self.mpls(),
            _ => None,
        }
    }

    fn ipv4(&mut self) -> Option<Next> {
        self.enter_network(Next::EtherType(ETHERTYPE_IPV4));
        let first = self.u8(0)?;
        let len = usize::from(first & 0xf) * 4;
        let is_fragment = self.u16(6)? & 0x3fff != 0;
        if first >> 4 != 4 || len < 20 || is_fragment {
            return None;
        }
        let protocol = self.u8(9)?;
        self.skip(len);
        Some(Next::Protocol(protocol))
    }

    fn ipv6(&mut self) -> Option<Next> {
        self.enter_network(Next::EtherType(ETHERTYPE_IPV6));
        if self.u8(0)? >> 4 != 6 {
            return None;
        }
        let protocol = self.u8(6)?;
        self.skip(40);
        Some(Next::Protocol(protocol))
    }

    fn protocol(&mut self, protocol: u8) -> Option<Next> {
        match protocol {
            PROTOCOL_IPV4 | PROTOCOL_IPV6 => {
                let ethertype = match protocol {
                    PROTOCOL_IPV4 => ETHERTYPE_IPV4,
                    _ => ETHERTYPE_IPV6,
                };
                Some(self.encapsulated("IP in IP", None, 0, Next::EtherType(ethertype)))
            }
            PROTOCOL_GRE => self.gre(),
            PROTOCOL_MPLS => self.mpls(),
            extension if IPV6_EXTENSIONS.contains(&extension) => {
                self.inner.has_extensions = true;
                let (next, len) = (self.u8(0)?, usize::from(self.u8(1)?));
                self.skip(match extension {
                    IPV6_AUTHENTICATION => (len + 2) * 4,
                    _ => (len + 1) * 8,
                });
                Some(Next::Protocol(next))
            }
            _ => None,
        }
    }

    fn udp(&mut self, port: u16) -> Option<Next> {
        const UDP_LEN: usize = 8;
        match port {
            // The flag says that the network's number is there.
            _ if PORTS_VXLAN.contains(&port) && self.u8(UDP_LEN)? & 0x08 != 0 => {
                let network = self.u32(UDP_LEN + 4)? >> 8;
                Some(self.encapsulated("VXLAN", Some(network), UDP_LEN + 8, Next::Ethernet))
            }
            PORT_GENEVE => {
                let options = usize::from(self.u8(UDP_LEN)? & 0x3f) * 4;
                let next = ethernet_or(self.u16(UDP_LEN + 2)?);
                let network = self.u32(UDP_LEN + 4)? >> 8;
                Some(self.encapsulated("Geneve", Some(network), UDP_LEN + 8 + options, next))
            }
            PORT_MPLS => {
                self.skip(UDP_LEN);
                self.mpls()
            }
            _ => None,
        }
    }

    /// RFC 2784 and 2890. Other versions and source routes lead nowhere.
    fn gre(&mut self) -> Option<Next> {
        const CHECKSUM: u16 = 0x8000;
        const ROUTING: u16 = 0x4000;
        const KEY: u16 = 0x2000;
        const SEQUENCE: u16 = 0x1000;
        let flags = self.u16(0)?;
        let ethertype = self.u16(2)?;
        if flags & (ROUTING | 7) != 0 {
            return None;
        }
        let mut len = 4;
        let mut optional = |flag| {
            let at = len;
            let is_there = flags & flag != 0;
            len += if is_there { 4 } else { 0 };
            is_there.then_some(at)
        };
        let (_, key, sequence) = (optional(CHECKSUM), optional(KEY), optional(SEQUENCE));
        let key = match key {
            Some(at) => Some(self.u32(at)?),
            None => None,
        };
        let next = Next::Ethernet;
        match ethertype {
            // Type I has neither a sequence number nor a header of its own.
            ETHERTYPE_ERSPAN_1_2 if sequence.is_none() => {
                Some(self.encapsulated("ERSPAN I", None, len, next))
            }
            ETHERTYPE_ERSPAN_1_2 => {
                let session = u32::from(self.u16(len + 2)? & 0x3ff);
                Some(self.encapsulated("ERSPAN II", Some(session), len + 8, next))
            }
            ETHERTYPE_ERSPAN_3 => self.erspan_3(len),
            _ => Some(self.encapsulated("GRE", key, len, ethernet_or(ethertype))),
        }
    }

    /// After `len` bytes of GRE.
    fn erspan_3(&mut self, len: usize) -> Option<Next> {
        let session = u32::from(self.u16(len + 2)? & 0x3ff);
        let last = self.u16(len + 10)?;
        // A further header, which depends on the switch.
        let further = if last & 1 != 0 { 8 } else { 0 };
        let next = match last >> 10 & 0x1f {
            0 => Next::Ethernet,
            2 if self.u8(len + 12 + further)? >> 4 == 6 => Next::EtherType(ETHERTYPE_IPV6),
            2 => Next::EtherType(ETHERTYPE_IPV4),
            _ => return None,
        };
        Some(self.encapsulated("ERSPAN III", Some(session), len + 12 + further, next))
    }

    /// All labels of a stack. No field names the header after them: its first bits tell IP from Ethernet with
    /// a control word (RFC 4448).
    fn mpls(&mut self) -> Option<Next> {
        let label = self.u32(0)? >> 12;
        while self.u32(0)? & 0x100 == 0 {
            self.skip(4);
        }
        let (len, next) = match self.u8(4)? >> 4 {
            4 => (4, Next::EtherType(ETHERTYPE_IPV4)),
            6 => (4, Next::EtherType(ETHERTYPE_IPV6)),
            0 => (8, Next::Ethernet),
            _ => return None,
        };
        Some(self.encapsulated("MPLS", Some(label), len, next))
    }
}

/// The header that follows an EtherType in a tunnel's header.
fn ethernet_or(ethertype: u16) -> Next {
    match ethertype {
        ETHERTYPE_BRIDGING => Next::Ethernet,
        ethertype => Next::EtherType(ethertype),
    }
}
