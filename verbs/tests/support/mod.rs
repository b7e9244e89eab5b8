//! One end of a connection over the loopback interface.

use roce_verbs::datapath::DatapathOptions;
use roce_verbs::qp::{Endpoint, PathMtu};
use roce_verbs::settings::OpenOptions;
use roce_verbs::{
    Access, CompletionQueue, ConnectOptions, Context, Device, MemoryRegion, QpOptions, QueuePair,
    SendOp, SendRequest, WcStatus,
};
use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

const TIMEOUT: Duration = Duration::from_secs(60);

/// Options for an end whose packets all take sockets, also those to other devices on this host.
#[allow(dead_code)]
pub(crate) fn sockets_only() -> OpenOptions {
    OpenOptions::new().datapath(DatapathOptions {
        sockets_only: true,
        ..DatapathOptions::default()
    })
}

/// The size of an end's region, and of each message, in bytes.
pub(crate) const LEN: usize = 200_000;

pub(crate) struct End {
    pub(crate) at: IpAddr,
    pub(crate) context: Context,
    pub(crate) cq: CompletionQueue,
    pub(crate) qp: QueuePair,
    pub(crate) region: MemoryRegion,
}

/// An address of the loopback network that no other test uses.
pub(crate) fn address(last: u8) -> IpAddr {
    let [_, _, high, low] = std::process::id().to_be_bytes();
    IpAddr::V4(Ipv4Addr::new(127, 64 | (high & 63), low, last))
}

impl End {
    /// Opens an end at an address of the loopback network that no other test uses.
    pub(crate) fn open(last: u8, options: &OpenOptions) -> Self {
        Self::open_at(address(last), options)
    }

    pub(crate) fn open_at(at: IpAddr, options: &OpenOptions) -> Self {
        let device = Device::with_address(at).expect("loopback");
        let context = options.open(&device).expect("opened");
        let pd = context.alloc_pd();
        let cq = context.create_cq(16);
        let qp = pd.create_qp(&cq, &cq, &QpOptions::default()).expect("a QP");
        let region = pd.allocate(LEN, Access::ANY_MEMORY).expect("allocated");
        Self {
            at,
            context,
            cq,
            qp,
            region,
        }
    }

    pub(crate) fn connect(&self, peer: &End) {
        self.connect_with(peer, None);
    }

    /// The same, with a given path MTU.
    pub(crate) fn connect_with(&self, peer: &End, path_mtu: Option<PathMtu>) {
        self.connect_to(&peer.endpoint(), path_mtu);
    }

    pub(crate) fn gid_index(&self) -> u8 {
        let gids = self.context.gids();
        let entry = gids.iter().find(|entry| entry.gid.ip() == self.at);
        entry.expect("the address has a GID").index
    }

    pub(crate) fn endpoint(&self) -> Endpoint {
        self.qp.endpoint(self.gid_index()).expect("endpoint")
    }

    /// The same, with the endpoint of the peer.
    pub(crate) fn connect_to(&self, peer: &Endpoint, path_mtu: Option<PathMtu>) {
        // 67 ms, eight times: the machine may be busy with other tests.
        let options = ConnectOptions {
            timeout: 14,
            path_mtu,
            ..ConnectOptions::default()
        };
        self.qp
            .connect(self.gid_index(), peer, &options)
            .expect("connected");
    }

    pub(crate) fn run(&self, op: SendOp) {
        let sge = self.region.slice(0, LEN).expect("in range");
        self.qp
            .post_send(&SendRequest::new(1, op, sge))
            .expect("posted");
        let done = self.cq.poll_for(TIMEOUT).expect("no overrun");
        assert_eq!(done.expect("completed").status, WcStatus::Success);
    }
}
