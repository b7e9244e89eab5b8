//! A host that sends what it likes.

use super::{PATIENCE, nqn};
use roce_nvme::wire::fabrics::{self, ANY_CONTROLLER, Connect, ConnectData};
use roce_nvme::wire::{
    COMMAND_LEN, Command, Configuration, HostId, KeyedSgl, Property, RESPONSE_LEN, Refusal,
    RejectPrivate, RequestPrivate, Response, Sgl, Status,
};
use roce_verbs::cm::ConnectionError;
use roce_verbs::completion::WcOpcode;
use roce_verbs::memory::{MemoryWindow, MwType};
use roce_verbs::prelude::*;
use std::cell::{Cell, RefCell};
use std::net::SocketAddr;

/// The most bytes of a capsule that this host sends.
const CAPSULE: usize = 16 << 10;
/// The longest queue of this host.
const DEPTH: usize = 256;

/// A connection to a target.
pub(crate) struct Raw {
    connection: Connection,
    cq: CompletionQueue,
    responses: MemoryRegion,
    capsule: MemoryRegion,
    /// Memory that the target may read and write.
    pub(crate) open: MemoryRegion,
    /// Memory that it may not.
    pub(crate) closed: MemoryRegion,
    pd: ProtectionDomain,
    /// The newest window.
    window: RefCell<Option<MemoryWindow>>,
    /// The key that the newest response has invalidated.
    invalidated: Cell<Option<u32>>,
}

/// The request of a queue of 32 entries.
pub(crate) fn request(queue: u16) -> RequestPrivate {
    RequestPrivate {
        queue,
        host_receive_len: 32,
        host_send_len: 31,
        controller: 0,
    }
}

impl Raw {
    /// Connects, with receives for `receives` responses.
    pub(crate) fn connect(
        at: SocketAddr,
        private: &[u8],
        receives: usize,
    ) -> Result<Self, ConnectionError> {
        Self::connect_with(at, &ConnectOptions::default(), private, receives)
    }

    pub(crate) fn connect_with(
        at: SocketAddr,
        connect: &ConnectOptions,
        private: &[u8],
        receives: usize,
    ) -> Result<Self, ConnectionError> {
        let context = Device::towards(at.ip()).and_then(|device| device.open());
        let context = context.expect("a device");
        let pd = context.alloc_pd();
        let cq = context.create_cq(2 * DEPTH);
        let options = QpOptions {
            send_depth: DEPTH,
            recv_depth: DEPTH,
            signal_all: true,
            ..QpOptions::default()
        };
        let qp = pd.create_qp(&cq, &cq, &options).expect("a QP");
        qp.to_init(connect.access).expect("INIT");
        let all =
            Access::MW_BIND | Access::LOCAL_WRITE | Access::REMOTE_READ | Access::REMOTE_WRITE;
        let allocate = |len, access| pd.allocate(len, access).expect("memory");
        let responses = allocate(DEPTH * RESPONSE_LEN, Access::LOCAL_WRITE);
        for index in 0..receives {
            receive(&qp, &responses, index);
        }
        Ok(Self {
            connection: Connection::connect(qp, at, connect, private)?,
            cq,
            responses,
            capsule: allocate(CAPSULE, Access::LOCAL_WRITE),
            open: allocate(1 << 20, all),
            closed: allocate(1 << 20, Access::LOCAL_WRITE),
            pd,
            window: RefCell::default(),
            invalidated: Cell::default(),
        })
    }

    /// A connection that is the enabled admin queue of a controller, and the controller's number.
    pub(crate) fn admin(at: SocketAddr) -> (Self, u16) {
        let raw = Self::connect(at, &request(0).encode(), 32).expect("connected");
        let response = raw.establish(0, ANY_CONTROLLER);
        assert_eq!(response.status, Status::SUCCESS);
        let enable = Configuration::ENABLED.0.into();
        raw.send(fabrics::property_set(Property::Configuration, enable).bytes());
        assert_eq!(raw.response().expect("answered").status, Status::SUCCESS);
        (raw, response.result as u16)
    }

    /// A connection that is queue `queue` of a controller.
    pub(crate) fn io(at: SocketAddr, queue: u16, controller: u16) -> Self {
        let raw = Self::connect(at, &request(queue).encode(), 32).expect("connected");
        let response = raw.establish(queue, controller);
        assert_eq!(response.status, Status::SUCCESS);
        raw
    }

    /// Sends the connect command.
    pub(crate) fn establish(&self, queue: u16, controller: u16) -> Response {
        let data = ConnectData {
            host_id: HostId([3; 16]),
            controller,
            subsystem: nqn(),
            host: "nqn.2014-08.org.nvmexpress:raw".parse().expect("a name"),
        };
        let data = data.encode();
        self.open.write(0, &data).expect("it fits");
        let connect = Connect {
            queue,
            length: 31,
            keep_alive_ms: 0,
        };
        let sgl = keyed(&self.open, data.len() as u32);
        self.send(connect.command().with_sgl(&sgl).bytes());
        self.response().expect("answered")
    }

    /// Sends a capsule.
    pub(crate) fn send(&self, capsule: &[u8]) {
        self.capsule.write(0, capsule).expect("it fits");
        let capsule = self.capsule.slice(0, capsule.len()).expect("it fits");
        let posted = self.connection.post_send(&SendRequest::send(capsule));
        posted.expect("posted");
    }

    /// Sends the same command many times.
    pub(crate) fn send_many(&self, command: &Command, count: usize) {
        self.capsule.write(0, command.bytes()).expect("it fits");
        let capsule = self.capsule.slice(0, COMMAND_LEN).expect("it fits");
        for _ in 0..count {
            let posted = self.connection.post_send(&SendRequest::send(capsule));
            posted.expect("posted");
        }
    }

    /// A new window to the first bytes of the open memory, of the kind that a SEND can invalidate.
    pub(crate) fn window(&self, len: usize) -> RemoteAddr {
        const KEY: u8 = 7;
        let access = Access::REMOTE_READ | Access::REMOTE_WRITE;
        let view = self.open.window(0, len, access).expect("it fits");
        let window = self.pd.alloc_mw(MwType::Type2).expect("a window");
        let remote = window.remote(KEY, &view, 0);
        let bind = SendRequest::new(0, window.bind(KEY, &view), ());
        self.connection.post_send(&bind).expect("posted");
        self.window.replace(Some(window));
        remote
    }

    /// The key that the newest response has invalidated.
    pub(crate) fn invalidated(&self) -> Option<u32> {
        self.invalidated.get()
    }

    /// The next response; `None` if the connection is over.
    pub(crate) fn response(&self) -> Option<Response> {
        loop {
            let completion = self.cq.poll_for(PATIENCE).expect("no overrun");
            let completion = completion.expect("an answer, or the connection's end");
            match (completion.status, completion.opcode) {
                (WcStatus::Success, WcOpcode::Recv) => {
                    self.invalidated.set(completion.invalidated_rkey);
                    let index = completion.wr_id as usize;
                    let mut bytes = [0; RESPONSE_LEN];
                    let read = self.responses.read(index * RESPONSE_LEN, &mut bytes);
                    read.expect("it fits");
                    receive(&self.connection, &self.responses, index);
                    return Some(Response::parse(&bytes));
                }
                (WcStatus::Success, _) => {}
                _ => return None,
            }
        }
    }
}

fn receive(qp: &QueuePair, responses: &MemoryRegion, index: usize) {
    let room = responses.slice(index * RESPONSE_LEN, RESPONSE_LEN);
    let request = RecvRequest {
        wr_id: index as u64,
        sges: &[room.expect("it fits")],
    };
    qp.post_recv(&request).expect("posted");
}

/// The descriptor of the first bytes of a region.
pub(crate) fn keyed(region: &MemoryRegion, len: u32) -> Sgl {
    Sgl::Keyed(KeyedSgl {
        remote: region.remote(0),
        len,
        invalidate: false,
    })
}

/// Why the target refused a connection.
pub(crate) fn refusal(connected: Result<Raw, ConnectionError>) -> Refusal {
    match connected.err() {
        Some(ConnectionError::Rejected { private, .. }) => {
            RejectPrivate::parse(&private).expect("a reason").reason
        }
        other => panic!("refused, not {other:?}"),
    }
}
