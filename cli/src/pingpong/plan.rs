//! From arguments to a plan: detects all errors that can be found before anything starts.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use roce_verbs::device::{GidEntry, GidKind, RoceVersion, devices};
use roce_verbs::qp::PathMtu;
use roce_verbs::settings::environment_datapath;
use roce_verbs::{Device, QpKind};

use super::{PingpongArgs, PingpongError};

/// The default time to wait for a peer that should be there.
const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// The server, as the user named it.
#[derive(Debug)]
pub(super) struct Host {
    /// The name as given.
    pub(super) name: String,
    /// The addresses that the name resolves to; at least one.
    pub(super) addresses: Vec<SocketAddr>,
}

/// The plan of one end.
#[derive(Debug)]
pub(super) struct Plan {
    /// The server; `None` on the server itself.
    pub(super) host: Option<Host>,
    pub(super) kind: QpKind,
    pub(super) port: u16,
    pub(super) device: Device,
    /// The GID to use.
    pub(super) gid: GidEntry,
    /// The address that the user selected, if any.
    address: Option<IpAddr>,
    /// Length of a message, in bytes.
    pub(super) size: usize,
    pub(super) mtu: PathMtu,
    pub(super) rx_depth: usize,
    pub(super) iters: u64,
    pub(super) service_level: u8,
    pub(super) events: bool,
    pub(super) check: bool,
    /// How long the server waits for a client; `None` for no limit.
    pub(super) timeout: Option<Duration>,
    /// How long to wait for the peer in all other cases.
    pub(super) peer_timeout: Duration,
    pub(super) json: bool,
}

impl Plan {
    /// Checks the arguments against each other and against the machine. The error message says what
    /// is wrong, and what would be right.
    pub(super) fn new(args: &PingpongArgs) -> Result<Self, PingpongError> {
        if let Some(rejection) = args.unsupported.rejection() {
            return Err(PingpongError::usage(rejection));
        }
        let host = match &args.host {
            None => None,
            Some(name) => Some(resolve(name, args.port)?),
        };
        let device = choose_device(args, host.as_ref())?;
        let kind = QpKind::from(args.kind);
        let mtu = path_mtu(kind, args.mtu.as_deref(), &device)?;
        Ok(Self {
            size: message_size(kind, args.size, mtu, &device)?,
            gid: choose_gid(args, &device)?,
            host,
            kind,
            port: args.port,
            device,
            address: args.address,

            mtu,
            rx_depth: args.rx_depth,
            // The limit is 15.
            service_level: u8::try_from(args.sl).unwrap_or_default(),
            iters: args.iters,
            events: args.events,
            check: args.check,
            timeout: args.timeout,
            peer_timeout: args.timeout.unwrap_or(PEER_TIMEOUT),
            json: args.json,
        })
    }

    /// The address to listen on; `None` for every address.
    pub(super) fn listen_on(&self) -> Option<SocketAddr> {
        let address = self.address?;
        let mut at = SocketAddr::new(address, self.port);
        if let SocketAddr::V6(at) = &mut at
            && at.ip().is_unicast_link_local()
        {
            at.set_scope_id(self.device.interface().index);
        }
        Some(at)
    }
}

fn resolve(name: &str, port: u16) -> Result<Host, PingpongError> {
    let fault = |why: String| {
        PingpongError::new(format!(
            "HOST {name:?}: {why}. Give the server's name or address, IPv4 or IPv6"
        ))
    };
    let addresses: Vec<SocketAddr> = (name, port)
        .to_socket_addrs()
        .map_err(|error| fault(error.to_string()))?
        .collect();
    if addresses.is_empty() {
        return Err(fault("the name has no address".to_owned()));
    }
    Ok(Host {
        name: name.to_owned(),
        addresses,
    })
}

fn choose_device(args: &PingpongArgs, host: Option<&Host>) -> Result<Device, PingpongError> {
    if let Some(address) = args.address {
        return Device::with_address(address)
            .map_err(|error| PingpongError::usage(format!("--address: {error}")));
    }
    if let Some(name) = &args.device {
        return Device::named(name).map_err(|error| PingpongError::usage(format!("-d: {error}")));
    }
    let all = devices()?;
    let on_loopback =
        host.is_some_and(|host| host.addresses.iter().all(|at| at.ip().is_loopback()));
    all.iter()
        .find(|device| device.is_loopback() == on_loopback)
        .or(all.first())
        .cloned()
        .ok_or_else(|| {
            PingpongError::new("there is no device: no interface is up and has an address")
        })
}

fn choose_gid(args: &PingpongArgs, device: &Device) -> Result<GidEntry, PingpongError> {
    let options =
        environment_datapath().map_err(|error| PingpongError::usage(error.to_string()))?;
    let table = device.gids_with(&options);
    // RoCE v1 is used only if its index is given.
    let v2_entries = || {
        let of_v2 = |entry: &&GidEntry| entry.version == RoceVersion::V2;
        table.iter().filter(of_v2)
    };
    if let Some(address) = args.address {
        let found = v2_entries()
            .find(|entry| entry.gid.ip() == address)
            .copied();
        return found.ok_or_else(|| {
            PingpongError::new(format!("{} has lost address {address}", device.name()))
        });
    }
    if let Some(index) = args.gid_index {
        let found = table.iter().find(|entry| u64::from(entry.index) == index);
        return found.copied().ok_or_else(|| {
            let known: Vec<String> = table
                .iter()
                .map(|entry| format!("{} ({}, {})", entry.index, entry.gid, entry.version))
                .collect();
            PingpongError::usage(format!(
                "-g {index}: the GID table of {} has no such index; there are: {}",
                device.name(),
                known.join(", ")
            ))
        });
    }
    v2_entries()
        .find(|entry| entry.gid.kind() == GidKind::Ipv4)
        .or(v2_entries().next())
        .copied()
        .ok_or_else(|| PingpongError::new(format!("{} has no address, so no GID", device.name())))
}

/// The length of a message. A datagram must fit in one packet.
fn message_size(
    kind: QpKind,
    given: Option<usize>,
    mtu: PathMtu,
    device: &Device,
) -> Result<usize, PingpongError> {
    let most = mtu.bytes();
    match given {
        _ if kind != QpKind::Ud => Ok(given.unwrap_or(4096)),
        None => Ok(most.min(2048)),
        Some(size) if size <= most => Ok(size),
        Some(size) => Err(PingpongError::usage(format!(
            "-s {size}: with --type ud a message is one packet, which carries at most {most} bytes \
             on interface {}. Use -s {most} or less on both ends, or raise the MTU of both \
             interfaces",
            device.interface().name
        ))),
    }
}

fn path_mtu(kind: QpKind, given: Option<&str>, device: &Device) -> Result<PathMtu, PingpongError> {
    if kind == QpKind::Ud {
        return match given {
            None => Ok(device.active_mtu()),
            Some(text) => Err(PingpongError::usage(format!(
                "-m {text}: with --type ud there is no path MTU to choose, since a message is one \
                 packet. Leave it out; -s says how long that is"
            ))),
        };
    }
    let text = given.unwrap_or("1024");
    let valid = PathMtu::ALL.map(|mtu| mtu.to_string()).join(", ");
    let mtu = text
        .parse()
        .ok()
        .and_then(PathMtu::from_bytes)
        .ok_or_else(|| PingpongError::usage(format!("-m {text}: a path MTU is one of {valid}")))?;
    let largest = device.active_mtu();
    if mtu > largest {
        let interface = device.interface();
        return Err(PingpongError::usage(format!(
            "-m {mtu}: packets of that path MTU do not fit in the {} bytes that interface {} \
             carries (its MTU). Use -m {largest} or less on both ends, or raise the MTU of both \
             interfaces",
            interface.mtu, interface.name
        )));
    }
    Ok(mtu)
}
