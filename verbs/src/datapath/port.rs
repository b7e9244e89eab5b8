//! The ports that a device can have, behind one small interface.

use super::choose::{tx_features, why_copied};
use super::{Datapath, DatapathKind, NotTaken, XdpAttachment, XdpQueue};
use nix::poll::PollFlags;
use roce_port::{Port, PortError};
use roce_stack::Addresses;
use roce_udp::UdpPort;
use roce_xdp::XdpPort;
use std::io;
use std::net::IpAddr;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;
use std::time::Duration;

/// The port of an open device. It dereferences to the [`Port`] that the stack drives:
/// which of them it is, is asked once for each call into the stack, not for each packet.
pub(crate) enum DevicePort {
    Udp(Box<UdpPort>),
    Xdp(Box<XdpPort>),
}

/// What a thread that sleeps waits for.
pub(crate) struct WakeUps {
    /// Descriptors, copied, so that the port is not borrowed while sleeping.
    pub(crate) packets: Vec<(OwnedFd, PollFlags)>,
    /// Readable when [`DevicePort::follow_network`] has something to do.
    pub(crate) news: Option<OwnedFd>,
}

impl Deref for DevicePort {
    type Target = dyn Port;

    fn deref(&self) -> &Self::Target {
        match self {
            Self::Udp(port) => &**port,
            Self::Xdp(port) => &**port,
        }
    }
}

impl DerefMut for DevicePort {
    fn deref_mut(&mut self) -> &mut Self::Target {
        match self {
            Self::Udp(port) => &mut **port,
            Self::Xdp(port) => &mut **port,
        }
    }
}

impl DevicePort {
    /// Packets that were committed and that the kernel has not taken, or not sent, yet.
    pub(crate) fn queued(&self) -> usize {
        match self {
            Self::Udp(port) => port.queued(),
            Self::Xdp(port) => port.queued(),
        }
    }

    /// Whether packets of different lengths, and to different QPs, leave by one system call,
    /// in order, each as soon as its turn comes: what is queued behind another packet does
    /// not delay that, and costs less than it would later.
    pub(crate) fn sends_all_by_one_call(&self) -> bool {
        match self {
            Self::Udp(_) => false,
            Self::Xdp(_) => true,
        }
    }

    /// Whether packets wait to be received that no descriptor tells of.
    pub(crate) fn has_looped(&self) -> bool {
        match self {
            Self::Udp(_) => false,
            Self::Xdp(port) => port.has_looped(),
        }
    }

    /// How long from now [`DevicePort::follow_network`] can wait, if not for ever.
    pub(crate) fn next_deadline(&self) -> Option<Duration> {
        match self {
            Self::Udp(_) => None,
            Self::Xdp(port) => port.next_deadline(),
        }
    }

    /// Takes in what has happened to routes and neighbours: the kernel does that for
    /// sockets.
    ///
    /// # Errors
    /// If the interface is gone for good.
    pub(crate) fn follow_network(&mut self) -> Result<(), PortError> {
        match self {
            Self::Udp(_) => Ok(()),
            Self::Xdp(port) => port.follow_network(),
        }
    }

    /// What to wait for when there is nothing to do.
    pub(crate) fn wake_ups(&self) -> WakeUps {
        let copy = |fd: std::os::fd::BorrowedFd<'_>, wants_write| {
            let flags = if wants_write {
                PollFlags::POLLIN | PollFlags::POLLOUT
            } else {
                PollFlags::POLLIN
            };
            fd.try_clone_to_owned().ok().map(|fd| (fd, flags))
        };
        match self {
            Self::Udp(port) => WakeUps {
                packets: port
                    .fds()
                    .filter_map(|of| copy(of.fd, of.wants_write))
                    .collect(),
                news: None,
            },
            Self::Xdp(port) => WakeUps {
                packets: port
                    .queue_fds()
                    .filter_map(|of| copy(of.fd, of.wants_write))
                    .collect(),
                news: port.news_fd().try_clone_to_owned().ok(),
            },
        }
    }

    /// Management datagrams to this process's addresses come here, as far as they say that
    /// they are for this process, or nobody else takes them.
    ///
    /// # Errors
    /// If the system does not steer them.
    pub(crate) fn open_general_services(&mut self) -> io::Result<()> {
        match self {
            Self::Udp(port) => port.open_general_services(),
            // It takes all of its interface's.
            Self::Xdp(_) => Ok(()),
        }
    }

    /// Ends that, and all services.
    pub(crate) fn close_general_services(&mut self) {
        match self {
            Self::Udp(port) => port.close_general_services(),
            Self::Xdp(_) => {}
        }
    }

    /// Requests for a service come here, too, at these addresses.
    ///
    /// # Errors
    /// If the system does not steer them.
    pub(crate) fn serve(&mut self, local: Addresses, service: u32) -> io::Result<()> {
        match self {
            Self::Udp(port) => port.serve(local, service),
            Self::Xdp(_) => Ok(()),
        }
    }

    /// Ends that.
    pub(crate) fn stop_serving(&mut self, local: Addresses, service: u32) {
        match self {
            Self::Udp(port) => port.stop_serving(local, service),
            Self::Xdp(_) => {}
        }
    }

    /// The interface's index, if requests for services reach the process that takes them.
    pub(crate) fn steers_services(&self) -> Option<u32> {
        match self {
            Self::Udp(port) => Some(port.config().interface_index),
            // All requests come to this process.
            Self::Xdp(_) => None,
        }
    }

    /// The interface's addresses as they are now.
    pub(crate) fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        match self {
            Self::Udp(port) => port.set_addresses(addresses),
            // It is told by the kernel itself.
            Self::Xdp(_) => {}
        }
    }

    /// What it has counted so far, by name.
    pub(crate) fn each_counter(&self) -> Vec<(&'static str, u64)> {
        match self {
            Self::Udp(port) => port.counters().each().collect(),
            Self::Xdp(port) => port.each_counter(),
        }
    }

    /// The queues that it uses, if it is AF_XDP.
    pub(crate) fn xdp_queues(&self) -> Vec<XdpQueue> {
        let Self::Xdp(port) = self else {
            return Vec::new();
        };
        let each = port.queues().iter().zip(port.each_counter_by_queue());
        each.map(|(queue, counters)| XdpQueue {
            number: queue.kernel().queue(),
            zero_copy: queue.kernel().is_zero_copy(),
            shares_memory: queue.kernel().shares_memory(),
            counters,
        })
        .collect()
    }

    /// What it is, and why no other was taken.
    pub(crate) fn describe(&self, not_taken: Vec<NotTaken>) -> Datapath {
        let capabilities = self.capabilities();
        let kind = match self {
            Self::Udp(port) => {
                let offer = port.offer();
                DatapathKind::Udp {
                    segmentation: offer.segmentation,
                    coalescing: offer.coalescing,
                }
            }
            Self::Xdp(port) => DatapathKind::Xdp {
                attachment: Some(match port.attached().mode() {
                    roce_xdp::program::Mode::Native => XdpAttachment::Native,
                    roce_xdp::program::Mode::Generic => XdpAttachment::Generic,
                }),
                why_not_native: port.attached().why_not_native().map(ToString::to_string),
                zero_copy: Some(is_zero_copy(port)),
                why_copied: (!is_zero_copy(port)).then(|| {
                    let native = port.attached().mode() == roce_xdp::program::Mode::Native;
                    let mtu = port.net().link().map_or(0, |link| link.mtu);
                    why_copied(port.driver(), native, mtu)
                        .unwrap_or_else(|| "the driver refused zero-copy".to_owned())
                }),
                queues: port.queues().len(),
                tx_features: port.driver().map(tx_features),
            },
        };
        Datapath {
            kind,
            max_packet_bytes: capabilities.max_packet_bytes,
            receive_buffer_bytes: capabilities.receive_buffer_bytes,
            fallback: None,
            not_taken,
        }
    }
}

/// Whether the driver reads and writes the frames of all queues in our memory.
fn is_zero_copy(port: &XdpPort) -> bool {
    port.queues()
        .iter()
        .all(|queue| queue.kernel().is_zero_copy())
}
