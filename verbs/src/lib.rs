//! RDMA verbs in Rust, on a NIC in software.
//!
//! The objects are those that a verbs programmer knows: a [`Device`] is opened to a
//! [`Context`], which makes [`ProtectionDomain`]s, [`MemoryRegion`]s,
//! [`CompletionQueue`]s, [`SharedReceiveQueue`]s and [`QueuePair`]s. Each object keeps alive what it needs,
//! so that they can be dropped in any order; memory is deregistered before it is
//! freed; and what peers may write at any time is never lent as a reference.
//!
//! ```no_run
//! use roce_verbs::{Access, ConnectOptions, Device, QpOptions, SendOp, SendRequest};
//!
//! # fn exchange(mine: roce_verbs::Endpoint) -> roce_verbs::Endpoint { mine }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let context = Device::named("roce_eth0")?.open()?;
//! let pd = context.alloc_pd();
//! let region = pd.allocate(4096, Access::LOCAL_WRITE | Access::REMOTE_WRITE)?;
//! let cq = context.create_cq(64);
//! let qp = pd.create_qp(&cq, &cq, &QpOptions::default())?;
//!
//! let local = qp.endpoint(0)?;          // to be sent to the peer by other means
//! let remote = exchange(local);
//! qp.connect(0, &remote, &ConnectOptions::default())?;
//!
//! region.write(0, b"hello")?;
//! qp.post_send(&SendRequest::new(1, SendOp::Send, &[region.slice(0, 5)?]))?;
//! let completion = cq.wait_polling()?;
//! println!("{}", completion.status);
//! # Ok(())
//! # }
//! ```
//!
//! # Datagrams
//!
//! A UD QP ([`QpOptions::kind`]) has no peer: [`QueuePair::activate`] makes it ready, and
//! each request says where it goes. What is received has a network header of 40 bytes in
//! front, so receives must be as much larger.
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
//! qp.post_send(&SendRequest::new(1, SendOp::SendTo(to), &[region.slice(0, 5)?]))?;
//! # Ok(())
//! # }
//! ```
//!
//! # Who does the work
//!
//! The thread that posts or polls drives the NIC, so that a spinning application
//! pays for no hand-over between threads. A background thread of the context drives
//! it when no application thread has for a while: a target of READ and WRITE needs
//! no call of its application.
#![warn(missing_docs)]
#![deny(unsafe_code)]

mod announce;
mod capture;
mod channel;
mod clock;
mod cm;
mod congestion;
mod context;
mod cq;
mod datagram;
mod datapath;
mod device;
mod device_memory;
mod driver;
mod engine;
mod environment;
mod error;
mod events;
mod faults;
mod gid;
mod interfaces;
mod moderation;
mod monitor;
mod options;
mod pd;
mod priorities;
mod process_memory;
mod qp;
mod region;
mod registration;
mod srq;
mod start;
mod tally;
mod watch;
mod window;
mod xrc;

pub use capture::environment_capture;
pub use channel::CompletionChannel;
pub use cm::{ConnectionManager, EventSink, ListenError, PortClaim, PortClaimError, PortTaken};
pub use congestion::environment_congestion;
pub use context::Context;
pub use cq::CompletionQueue;
pub use datagram::AddressOptions;
pub use datapath::{
    Datapath, DatapathChoice, DatapathKind, DatapathOptions, NotTaken, TxFeatures, XdpAttachment,
    XdpChecksum, XdpMode, XdpQueue, environment_datapath,
};
pub use device::{Device, all_devices, devices};
pub use device_memory::{DeviceMemory, MAX_DEVICE_MEMORY_BYTES};
pub use environment::{
    ReadBy, UnknownVariable, VARIABLES, Variable, check_environment, report_environment,
    unknown_variables, warn_of_unknown_variables,
};
pub use error::{ConnectError, OpenError, QpError, RegionError, StartError};
pub use events::AsyncEvents;
pub use faults::environment_faults;
pub use gid::{Gid, GidEntry, GidKind, ParseGidError};
pub use interfaces::{Interface, interfaces};
pub use options::OpenOptions;
pub use pd::ProtectionDomain;
pub use priorities::{PrioritySettings, PrioritySettingsError, environment_priorities};
pub use process_memory::ProcessMemory;
pub use qp::{ConnectOptions, Endpoint, QpOptions, QueuePair, RecvRequest, SendBatch, SendRequest};
pub use region::MemoryRegion;
pub use registration::Registration;
pub use roce_capture::{Capture, CreateError};
pub use roce_cm;
pub use roce_port::PortError;
pub use roce_port::fault::{Burst, Chance, FaultSpec, FaultSpecError, ReorderBy};
pub use roce_stack::{
    Access, AccessError, Buffer, BufferRange, Completion, Counters, CqId, CqOverrun, CqResizeError,
    CreateQpError, DeregisterError, DropReason, Event, FaultSafe, Flush, MAX_INLINE_BYTES,
    MAX_MESSAGE_BYTES, MAX_QUEUE_DEPTH, MAX_RD_ATOMIC, MAX_SGE, MAX_SRQS, Memory, MemoryFault,
    ModifyError, Notify, PostError, QpAttributes, QpConfig, QpKind, QpState, QpStatus, QpTraffic,
    QpnPart, RegisterError, RemoteAddr, Reregister, ReregisterError, RoceVersion, SendFlags,
    SendOp, Sge, SrqAttributes, SrqError, SrqStatus, Srqn, Stat, TxMeta, WcOpcode, WcStatus,
    WindowType, largest_path_mtu,
};
pub use roce_stack::{
    AddressError, AddressHandle, Destination, MulticastError, NetworkHeader, Source,
};
pub use roce_stack::{
    CongestionControl, CongestionSettings, CongestionSettingsError, DcqcnParameters,
    DelayParameters, NotificationPoint, QpCongestion, RateLimit,
};
pub use roce_wire::{FlushPlacement, FlushSelectivity, PKey, PathMtu, Psn, QKey, Qpn, RnrTimer};
pub use srq::{SharedReceiveQueue, SrqOptions};
pub use tally::{Tally, Totals, totals_of_this_program};
pub use watch::{
    DeviceSnapshot, Processes, QpSnapshot, Snapshot, environment_metrics, watch_processes,
};
pub use window::{MemoryWindow, WindowView};
pub use xrc::XrcDomain;
