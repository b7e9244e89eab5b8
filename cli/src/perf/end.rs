//! One end of the RDMA connection: device, buffer and QP.

use super::args::PerfArgs;
use super::control::{Hello, PeerQp, VERSION};
use super::pattern;
use crate::error::Error;
use roce_verbs::datapath::DatapathKind;
use roce_verbs::device::RoceVersion;
use roce_verbs::qp::{PathMtu, QpError};
use roce_verbs::settings::{OpenOptions, environment_datapath};
use roce_verbs::{
    Access, Completion, CompletionQueue, ConnectOptions, Context, Device, MemoryRegion,
    ProtectionDomain, QpOptions, QueuePair, RecvRequest, RemoteAddr, WcStatus,
};
use std::net::IpAddr;
use std::time::{Duration, Instant};

/// The longest time without any message before the peer counts as gone.
pub(super) const PEER_TIMEOUT: Duration = Duration::from_secs(10);

/// One end of the connection.
pub(super) struct End {
    pub(super) context: Context,
    pd: ProtectionDomain,
    pub(super) cq: CompletionQueue,
    pub(super) qp: QueuePair,
    pub(super) region: MemoryRegion,
    gid_index: u8,
    path_mtu: PathMtu,
    pub(super) depth: usize,
    sockets_only: bool,
    /// Why packets can't take a lane.
    pub(super) why_no_lane: Option<String>,
}

impl End {
    /// Opens a QP at `address`, with a buffer of `buffer_len` bytes. With `sockets_only`, its packets take
    /// no lane.
    pub(super) fn open(
        args: &PerfArgs,
        address: IpAddr,
        buffer_len: usize,
        depth: usize,
        sockets_only: bool,
    ) -> Result<Self, Error> {
        let device = Device::with_address(address)?;
        let path_mtu = path_mtu(args.mtu, &device)?;
        let mut datapath = environment_datapath()?;
        datapath.sockets_only |= sockets_only;
        let options = OpenOptions::from_env()?.datapath(datapath);
        let context = options.open(&device)?;
        let predicted = device.datapath(&datapath).map(|predicted| predicted.kind);
        let why_no_lane = match predicted {
            Ok(DatapathKind::Udp { why_no_lanes, .. }) => why_no_lanes,
            _ => Some("packets go over AF_XDP (ROCE_DATAPATH)".to_owned()),
        };
        if let Some(index) = args.gid_index {
            check_gid_index(index, &context)?;
        }
        let found = context
            .gids()
            .into_iter()
            .find(|entry| entry.gid.ip() == address && entry.version == RoceVersion::V2);
        let gid_index = match (args.gid_index, found) {
            (Some(index), _) => index,
            (None, Some(entry)) => entry.index,
            (None, None) => {
                return Err(Error::new(format_args!(
                    "{address} has no GID on its device"
                )));
            }
        };
        let pd = context.alloc_pd();
        let cq = context.create_cq(4 * depth);
        let qp = create_qp(&pd, &cq, depth)?;
        let region = pd.allocate(buffer_len, Access::ANY_MEMORY)?;
        Ok(Self {
            context,
            pd,
            cq,
            qp,
            region,
            gid_index,
            path_mtu,
            depth,
            sockets_only,
            why_no_lane,
        })
    }

    /// The first message to the peer.
    pub(super) fn hello(&self) -> Result<Hello, Error> {
        let endpoint = self.qp.endpoint(self.gid_index)?;
        let RemoteAddr { addr, rkey } = self.region.remote(0);
        Ok(Hello {
            version: VERSION,
            path_mtu: self.path_mtu.bytes(),
            gid: endpoint.gid.0,
            addr,
            rkey,
            buffer_len: self.region.len(),
            depth: self.depth,
            sockets_only: self.sockets_only,
        })
    }

    /// Makes a new QP for the next phase, and drops the previous one.
    pub(super) fn replace_qp(&mut self) -> Result<PeerQp, Error> {
        self.qp = create_qp(&self.pd, &self.cq, self.depth)?;
        while self.cq.poll()?.is_some() {}
        let endpoint = self.qp.endpoint(self.gid_index)?;
        Ok(PeerQp {
            qpn: endpoint.qpn.get(),
            psn: endpoint.psn.get(),
        })
    }

    /// The path MTU: the smaller one of the two sides.
    pub(super) fn negotiated_mtu(&self, peer: &Hello) -> Result<PathMtu, Error> {
        PathMtu::from_bytes(peer.path_mtu.min(self.path_mtu.bytes())).ok_or_else(|| {
            Error::new(format_args!(
                "the peer's path MTU of {} is not valid",
                peer.path_mtu
            ))
        })
    }

    /// Connects to the peer's QP.
    pub(super) fn connect(&self, peer: &Hello, qp: PeerQp) -> Result<(), Error> {
        let path_mtu = Some(self.negotiated_mtu(peer)?);
        let options = ConnectOptions {
            path_mtu,
            ..ConnectOptions::default()
        };
        self.qp
            .connect(self.gid_index, &qp.endpoint(peer), &options)?;
        Ok(())
    }

    /// Posts a receive for message `slot`.
    pub(super) fn post_recv(&self, slot: usize, size: usize) -> Result<(), Error> {
        let sge = self.region.slice(slot * pattern::stride(size), size)?;
        self.qp.post_recv(&RecvRequest {
            wr_id: slot as u64,
            sges: &[sge],
        })?;
        Ok(())
    }

    /// Waits for the next completion; it is an error if it failed.
    pub(super) fn next(&self) -> Result<Completion, Error> {
        match self.cq.poll()? {
            Some(completion) => check(completion),
            None => self.wait(),
        }
    }

    #[cold]
    fn wait(&self) -> Result<Completion, Error> {
        let deadline = Instant::now() + PEER_TIMEOUT;
        loop {
            // Read the clock only occasionally.
            for _ in 0..256 {
                if let Some(completion) = self.cq.poll()? {
                    return check(completion);
                }
            }
            if Instant::now() > deadline {
                return Err(peer_silent());
            }
        }
    }
}

/// The requested path MTU, or the largest that the link allows.
fn path_mtu(asked: Option<usize>, device: &Device) -> Result<PathMtu, Error> {
    let largest = device.active_mtu();
    match asked.and_then(PathMtu::from_bytes) {
        None => Ok(largest),
        Some(mtu) if mtu <= largest => Ok(mtu),
        Some(mtu) => {
            let interface = device.interface();
            Err(Error::usage(format_args!(
                "--mtu is {mtu}, but packets of that path MTU do not fit in the {} bytes that \
                 interface {} carries (its MTU): use --mtu {largest} or less, or raise the MTU of \
                 both interfaces",
                interface.mtu, interface.name
            )))
        }
    }
}

fn check_gid_index(index: u8, context: &Context) -> Result<(), Error> {
    let table = context.gids();
    if table.iter().any(|entry| entry.index == index) {
        return Ok(());
    }
    let known: Vec<String> = table
        .iter()
        .map(|entry| format!("{} ({}, {})", entry.index, entry.gid, entry.version))
        .collect();
    Err(Error::usage(format_args!(
        "--gid-index is {index}, but the GID table of {} has no such index; there are: {}",
        context.device().name(),
        known.join(", ")
    )))
}

fn create_qp(
    pd: &ProtectionDomain,
    cq: &CompletionQueue,
    depth: usize,
) -> Result<QueuePair, QpError> {
    let options = QpOptions {
        send_depth: depth,
        // Twice the number of outstanding messages: a message must not find the queue empty while
        // the completion of the one before is on its way to the application.
        recv_depth: 2 * depth,
        max_send_sge: 1,
        max_recv_sge: 1,
        ..QpOptions::default()
    };
    pd.create_qp(cq, cq, &options)
}

/// The error for a peer that has sent nothing for [`PEER_TIMEOUT`].
pub(super) fn peer_silent() -> Error {
    Error::new(format_args!(
        "the peer has sent nothing for {} s",
        PEER_TIMEOUT.as_secs()
    ))
}

/// Returns the completion if it is a success.
pub(super) fn check(completion: Completion) -> Result<Completion, Error> {
    if completion.status == WcStatus::Success {
        return Ok(completion);
    }
    Err(Error::new(format_args!(
        "work request {} of QP {:#08x} failed: {}",
        completion.wr_id,
        completion.qpn.get(),
        completion.status
    )))
}
