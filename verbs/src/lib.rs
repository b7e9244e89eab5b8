//! RDMA verbs in Rust, on a NIC in software.
//!
//! The objects are those of the verbs API. Opening a [`Device`] gives a [`Context`], which makes
//! [`ProtectionDomain`]s, [`MemoryRegion`]s, [`CompletionQueue`]s, [`SharedReceiveQueue`]s and
//! [`QueuePair`]s. Each object keeps alive what it needs, so they can be dropped in any order.
//! Memory is deregistered before it is freed. A program never gets a reference to memory that a
//! peer may write, so it needs no `unsafe`.
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
//! The folder `examples` has a program for each of: send and receive, WRITE with immediate data,
//! READ, atomics, FLUSH to persistence, multicast datagrams, the connection manager, and tokio.
//!
//! # Modules
//!
//! The [`prelude`] has the names that most programs use. They are at the crate's root as well. All
//! other names are in modules:
//!
//! | module | has |
//! |---|---|
//! | [`device`] | devices, open devices, their GIDs and asynchronous events |
//! | [`memory`] | protection domains, memory regions and windows |
//! | [`qp`] | queue pairs, shared receive queues, XRC domains |
//! | [`work`] | work requests: what is posted to queues |
//! | [`completion`] | completion queues, channels and counters |
//! | [`datagram`] | address handles, destinations and datagram headers |
//! | [`cm`] | connections by address and port |
//! | [`rdma_cm`] | connections in the steps of librdmacm |
//! | [`datapath`] | UDP sockets or AF_XDP |
//! | [`settings`] | how a device is opened, and environment variables |
//! | [`observation`] | counters, captures, snapshots |
//!
//! # Features
//!
//! All are on by default. Without them, a program compiles 35 crates instead of 62, and only UDP sockets carry its
//! packets.
//!
//! | feature | has |
//! |---|---|
//! | `observe` | `why`, and most of [`observation`]: explanations of failures, captures, snapshots, metrics |
//! | `faults` | `faults`: failures on purpose |
//! | `xdp` | the datapath over AF_XDP |
//! | `serde` | serde's traits for [`Endpoint`] and for `RemoteAddr`; `observe` includes it |
//!
//! The connection manager's messages are those of the crate [`roce_cm`], which is re-exported.
//!
//! # Connecting
//!
//! | the two programs … | use |
//! |---|---|
//! | know an address and a port | [`Listener`] and [`Connection`], which also connect with programs that use librdmacm |
//! | can exchange a line of text (over a socket or a file) | [`QueuePair::endpoint`] and [`QueuePair::connect`]; an [`Endpoint`] converts to and from text (`Display`, `FromStr`) |
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
//! [`CompletionQueue::poll`] takes a completion. If there is none, it drives the NIC once and looks
//! again. [`CompletionQueue::wait_polling`] spins until there is one: the lowest latency, and a
//! busy core. [`Completion::ok`] turns a failed request into an error.
//!
//! A thread that sleeps, or an event loop, uses a [`CompletionChannel`]. Its descriptor is readable
//! while a completion event is queued:
//!
//! ```no_run
//! # use roce_verbs::prelude::*;
//! use roce_verbs::completion::Notify;
//!
//! # fn wait(context: &Context) -> Result<(), Box<dyn std::error::Error>> {
//! let channel = context.create_channel()?;
//! let cq = context.create_cq_with_channel(64, &channel);
//! let completion = loop {
//!     cq.request_notify(Notify::Next);
//!     // A completion that arrived before the request raises no event.
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
//! A UD QP ([`QpOptions::kind`]) has no peer. [`QueuePair::activate`] makes it ready, and each
//! request names its destination. A network header of 40 bytes precedes each received datagram, so
//! its receive buffer must be 40 bytes larger than the datagram.
//!
//! ```no_run
//! # use roce_verbs::prelude::*;
//! use roce_verbs::{datagram::AddressOptions, qp::QKey};
//!
//! # fn send_datagram(context: &Context, pd: &ProtectionDomain, cq: &CompletionQueue, region: &MemoryRegion,
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
//! The thread that posts or polls drives the NIC, so an application that spins pays for no
//! hand-over between threads. A background thread of the context drives the NIC when no application
//! thread has done so for a while. A target of READ and WRITE therefore needs no calls by its
//! application.
//!
//! [`CompletionChannel`]: completion::CompletionChannel
//! [`ConnectionManager`]: cm::ConnectionManager
//! [`SharedReceiveQueue`]: qp::SharedReceiveQueue
// They panic if the output can't be written.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![warn(missing_docs)]
#![deny(unsafe_code)]

#[macro_use]
mod macros;

pub mod cm;
pub mod completion;
mod context;
pub mod datagram;
pub mod datapath;
pub mod device;
mod environment;
mod error;
mod events;
mod gid;
mod limits;
pub mod memory;
pub mod observation;
mod pd;
pub mod prelude;
pub mod qp;
pub mod rdma_cm;
mod runtime;
pub mod settings;
pub mod work;

pub use prelude::*;
pub use roce_cm;
#[cfg(feature = "faults")]
pub use roce_faults as faults;
#[cfg(feature = "observe")]
pub use roce_observe::why;
