//! RDMA verbs in Rust, on a NIC in software.
//!
//! The objects are those that a verbs programmer knows. A [`Device`] is opened to a [`Context`], which
//! makes [`ProtectionDomain`]s, [`MemoryRegion`]s, [`CompletionQueue`]s, [`SharedReceiveQueue`]s and
//! [`QueuePair`]s. Each object keeps alive what it needs, so they can be dropped in any order. Memory
//! is deregistered before it is freed. Memory that a peer may write is never lent as a reference, so
//! no program needs `unsafe`.
//!
//! ```
//! use roce_verbs::prelude::*;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // Each network interface has a device. This is the loopback interface's.
//!     let context = Device::named("roce_lo")?.open()?;
//!     let pd = context.alloc_pd();
//!     let cq = context.create_cq(64);
//!     let memory = pd.allocate(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
//!
//!     // Two queue pairs, each connected to the other. Between two programs, endpoints travel as
//!     // text, or `Listener` and `Connection` connect them by address and port.
//!     let a = pd.create_qp(&cq, &cq, &QpOptions::default())?;
//!     let b = pd.create_qp(&cq, &cq, &QpOptions::default())?;
//!     a.connect(0, &b.endpoint(0)?, &ConnectOptions::default())?;
//!     b.connect(0, &a.endpoint(0)?, &ConnectOptions::default())?;
//!
//!     // RDMA WRITE: five bytes from the start of the memory to its middle, through the network.
//!     memory.write(0, b"hello")?;
//!     a.post_send(&SendRequest::write(memory.slice(0, 5)?, memory.remote(2048)))?;
//!     cq.wait_polling()?.ok()?;
//!
//!     let mut written = [0; 5];
//!     memory.read(2048, &mut written)?;
//!     assert_eq!(&written, b"hello");
//!     Ok(())
//! }
//! ```
//!
//! The [`prelude`] has the names that every program uses. The folder `examples` has a program for each
//! of: send and receive, WRITE with immediate data, READ, atomics, multicast datagrams, the connection
//! manager, and tokio.
//!
//! # Connecting
//!
//! | the two programs … | use |
//! |---|---|
//! | know an address and a port | [`Listener`] and [`Connection`], which also connect with programs that use librdmacm |
//! | have a socket or a file between them | [`QueuePair::endpoint`] and [`QueuePair::connect`]; an [`Endpoint`] is text (`Display`, `FromStr`) or anything that serde makes of it |
//! | handle many connections in a loop of their own | [`ConnectionManager`], with [`QueuePair::connect_with`] and [`QueuePair::accept_with`] |
//!
//! ```no_run
//! # use roce_verbs::prelude::*;
//! # fn both(context: &Context, pd: &ProtectionDomain, cq: &CompletionQueue)
//! #     -> Result<(), Box<dyn std::error::Error>> {
//! # let options = ConnectOptions::default();
//! # let [qp, other_qp] = [(); 2].map(|()| pd.create_qp(cq, cq, &QpOptions::default()).unwrap());
//! let listener = Listener::bind(context, "10.0.0.1:7471".parse()?)?;     // one program …
//! let connection = listener.accept().accept(qp, &options, b"welcome")?;
//!
//! let connection = Connection::connect(other_qp, "10.0.0.1:7471".parse()?, &options, b"hello")?;
//! # Ok(())                                                               // … and another
//! # }
//! ```
//!
//! # Completions
//!
//! [`CompletionQueue::poll`] takes a completion if there is one, and drives the NIC.
//! [`CompletionQueue::wait_polling`] spins until there is one: the lowest latency, and a busy core.
//! [`Completion::ok`] makes an error of a request that failed.
//!
//! A thread that sleeps, or an event loop, uses a [`CompletionChannel`], whose descriptor is readable
//! while an announcement waits:
//!
//! ```no_run
//! # use roce_verbs::{prelude::*, Notify};
//! # fn wait(context: &Context) -> Result<(), Box<dyn std::error::Error>> {
//! let channel = context.create_channel()?;
//! let cq = context.create_cq_with_channel(64, &channel);
//! let completion = loop {
//!     cq.request_notify(Notify::Next);
//!     // What completed before the request is not announced.
//!     if let Some(completion) = cq.poll()? {
//!         break completion;
//!     }
//!     channel.wait(std::time::Duration::from_secs(1))?;
//! };
//! # Ok(())
//! # }
//! ```
//!
//! # Datagrams
//!
//! A UD QP ([`QpOptions::kind`]) has no peer. [`QueuePair::activate`] makes it ready, and each request
//! says where it goes. A received datagram has a network header of 40 bytes in front, so receives are
//! larger by that.
//!
//! ```no_run
//! # use roce_verbs::*;
//! # fn tell(context: &Context, pd: &ProtectionDomain, cq: &CompletionQueue, region: &MemoryRegion,
//! #     peer: Endpoint) -> Result<(), Box<dyn std::error::Error>> {
//! let options = QpOptions { kind: QpKind::Ud, ..QpOptions::default() };
//! let qp = pd.create_qp(cq, cq, &options)?;
//! let qkey = QKey(0x1111_1111);
//! qp.activate(0, qkey)?;
//! qp.attach_multicast("239.1.2.3".parse()?)?;
//!
//! let ah = pd.create_ah(0, peer.gid, &AddressOptions::default())?;
//! let to = ah.to(peer.qpn, qkey);
//! qp.post_send(&SendRequest::send(region.slice(0, 5)?).to(to))?;
//! # Ok(())
//! # }
//! ```
//!
//! # Which thread does the work
//!
//! The thread that posts or polls drives the NIC, so an application that spins pays for no hand-over
//! between threads. A background thread of the context drives it when no application thread has for a
//! while. So a target of READ and WRITE needs no call of its application.
#![warn(missing_docs)]
#![deny(unsafe_code)]

mod capture;
mod cm;
mod completion;
mod context;
mod datapath;
mod device;
mod environment;
mod error;
mod events;
mod gid;
mod interfaces;
mod memory;
mod pd;
pub mod prelude;
mod qp;
mod runtime;
mod settings;
mod tally;
mod watch;

pub use capture::environment_capture;
pub use cm::{
    Connection, ConnectionError, ConnectionManager, EventSink, Incoming, ListenError, Listener,
    PortClaim, PortClaimError, PortTaken,
};
pub use completion::{CompletionChannel, CompletionQueue};
pub use context::{AddressOptions, Context};
pub use datapath::{
    Datapath, DatapathChoice, DatapathKind, DatapathOptions, NotTaken, TxFeatures, XdpAttachment,
    XdpChecksum, XdpMode, XdpQueue, environment_datapath,
};
pub use device::{Device, all_devices, devices};
pub use environment::{ReadBy, UnknownVariable, VARIABLES, Variable, unknown_variables};
pub use error::{ConnectError, OpenError, QpError, RegionError, StartError};
pub use events::AsyncEvents;
pub use gid::{Gid, GidEntry, GidKind, ParseGidError};
pub use interfaces::{Interface, interfaces};
pub use memory::{
    DeviceMemory, MAX_DEVICE_MEMORY_BYTES, MemoryRegion, MemoryWindow, ProcessMemory, Registration,
    WindowView,
};
pub use pd::ProtectionDomain;
pub use qp::{
    ConnectOptions, Endpoint, ParseEndpointError, QpOptions, QueuePair, SendBatch,
    SharedReceiveQueue, SrqOptions, XrcDomain,
};
pub use roce_capture::{Capture, CreateError};
pub use roce_cm;
pub use roce_port::PortError;
pub use roce_port::fault::{Burst, Chance, FaultSpec, FaultSpecError, ReorderBy};
pub use roce_stack::{
    Access, AccessError, Buffer, BufferRange, Completion, CompletionError, Counters, CqId,
    CqOverrun, CqResizeError, CreateQpError, DeregisterError, DropReason, Event, FaultSafe, Flush,
    MAX_INLINE_BYTES, MAX_MESSAGE_BYTES, MAX_QUEUE_DEPTH, MAX_RD_ATOMIC, MAX_SGE, MAX_SRQS, Memory,
    MemoryFault, ModifyError, Notify, ParseRemoteAddrError, Payload, PostError, QpAttributes,
    QpConfig, QpKind, QpState, QpStatus, QpTraffic, QpnPart, RecvRequest, RegisterError,
    RemoteAddr, Reregister, ReregisterError, RoceVersion, SendFlags, SendOp, SendRequest, Sge,
    SrqAttributes, SrqError, SrqStatus, Srqn, Stat, Target, TxMeta, WcOpcode, WcStatus, WindowType,
    largest_path_mtu,
};
pub use roce_stack::{
    AddressError, AddressHandle, Destination, MulticastError, NetworkHeader, Source,
};
pub use roce_stack::{
    CongestionControl, CongestionSettings, CongestionSettingsError, DcqcnParameters,
    DelayParameters, NotificationPoint, QpCongestion, RateLimit,
};
pub use roce_wire::{FlushPlacement, FlushSelectivity, PKey, PathMtu, Psn, QKey, Qpn, RnrTimer};
pub use settings::{
    OpenOptions, PrioritySettings, PrioritySettingsError, check_environment,
    environment_congestion, environment_faults, environment_metrics, environment_priorities,
    report_environment, warn_of_unknown_variables,
};
pub use tally::{Tally, Totals, totals_of_this_program};
pub use watch::{DeviceSnapshot, Processes, QpSnapshot, Snapshot, watch_processes};
