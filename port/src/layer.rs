//! Layers around a port: each does part of the port's work differently.

use crate::error::PortError;
use crate::neighbours::Neighbours;
use crate::port::{Port, PortCapabilities, PortFd, PortQueue, RxSink, Steering};
use roce_stack::{
    Acknowledged, Flow, Instant, ReserveError, RoceVersion, Sequenced, Transmit, TxMeta, TxSlot,
};
use std::net::IpAddr;
use std::os::fd::BorrowedFd;
use std::time::Duration;

/// A layer around a port. Each method gets the port inside it; by default, the port does everything.
pub trait Layer {
    /// [`Transmit::reserve_run`].
    ///
    /// # Errors
    /// See [`ReserveError`].
    #[inline]
    fn reserve<'a>(
        &'a mut self,
        port: &'a mut impl Port,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        count: usize,
    ) -> Result<TxSlot<'a>, ReserveError> {
        port.reserve_run(to, flow, sequenced, len, count)
    }

    /// [`Transmit::has_room_for_others`].
    fn has_room_for_others(&self, port: &impl Port) -> bool {
        port.has_room_for_others()
    }

    /// [`Port::reserved`].
    fn reserved<'a>(&'a mut self, port: &'a mut impl Port) -> &'a [u8] {
        port.reserved()
    }

    /// [`Transmit::commit`].
    #[inline]
    fn commit(&mut self, port: &mut impl Port) {
        port.commit();
    }

    /// [`Port::set_addresses`].
    fn set_addresses(&mut self, port: &mut impl Port, addresses: Vec<IpAddr>) {
        port.set_addresses(addresses);
    }

    /// [`Port::note_time`].
    #[inline]
    fn note_time(&mut self, port: &mut impl Port, now: Option<Instant>) {
        port.note_time(now);
    }

    /// [`Port::receive`].
    ///
    /// # Errors
    /// The errors of the port.
    #[inline]
    fn receive(
        &mut self,
        port: &mut impl Port,
        budget: usize,
        sink: &mut dyn RxSink,
    ) -> Result<usize, PortError> {
        port.receive(budget, sink)
    }

    /// [`Port::flush`].
    ///
    /// # Errors
    /// The errors of the port.
    #[inline]
    fn flush(&mut self, port: &mut impl Port) -> Result<bool, PortError> {
        port.flush()
    }

    /// [`Port::queued`].
    #[inline]
    fn queued(&self, port: &impl Port) -> usize {
        port.queued()
    }

    /// [`Port::packet_fds`].
    fn packet_fds<'a>(&'a self, port: &'a impl Port) -> Vec<PortFd<'a>> {
        port.packet_fds()
    }

    /// The time from now after which the layer has something to pass on.
    fn next_deadline(&self) -> Option<Duration> {
        None
    }

    /// The number of packets that the layer carried over lanes.
    fn lane_packets(&self) -> u64 {
        0
    }

    /// The layer's own counters, by name. One with the name of a counter of the port adds to it.
    fn each_counter(&self) -> Vec<(&'static str, u64)> {
        Vec::new()
    }
}

/// A layer that does not exist: the type of those that a program is built without.
#[derive(Debug)]
pub enum NoLayer {}

impl Layer for NoLayer {}

/// A port inside a layer.
#[derive(Debug)]
pub struct Layered<L, P> {
    /// The layer.
    pub layer: L,
    /// The port inside.
    pub port: P,
}

impl<L: Layer, P: Port> Transmit for Layered<L, P> {
    fn reserve_run(
        &mut self,
        to: &TxMeta,
        flow: Flow,
        sequenced: Option<Sequenced>,
        len: usize,
        count: usize,
    ) -> Result<TxSlot<'_>, ReserveError> {
        let Self { layer, port } = self;
        layer.reserve(port, to, flow, sequenced, len, count)
    }

    fn has_room_for_others(&self) -> bool {
        self.layer.has_room_for_others(&self.port)
    }

    fn commit(&mut self) {
        self.layer.commit(&mut self.port);
    }

    fn acknowledged(&mut self, flow: Flow, which: Acknowledged) {
        self.port.acknowledged(flow, which);
    }
}

impl<L: Layer, P: Port> Port for Layered<L, P> {
    fn capabilities(&self) -> PortCapabilities {
        self.port.capabilities()
    }

    fn carries(&self, version: RoceVersion) -> bool {
        self.port.carries(version)
    }

    fn reserved(&mut self) -> &[u8] {
        self.layer.reserved(&mut self.port)
    }

    fn check(&mut self, path: &TxMeta) -> Result<(), PortError> {
        self.port.check(path)
    }

    fn activate(&mut self, address: IpAddr) -> Result<(), PortError> {
        self.port.activate(address)
    }

    fn set_addresses(&mut self, addresses: Vec<IpAddr>) {
        self.layer.set_addresses(&mut self.port, addresses);
    }

    fn join(&mut self, group: IpAddr) -> Result<(), PortError> {
        self.port.join(group)
    }

    fn leave(&mut self, group: IpAddr) {
        self.port.leave(group);
    }

    fn note_time(&mut self, now: Option<Instant>) {
        self.layer.note_time(&mut self.port, now);
    }

    fn receive(&mut self, budget: usize, sink: &mut dyn RxSink) -> Result<usize, PortError> {
        self.layer.receive(&mut self.port, budget, sink)
    }

    fn flush(&mut self) -> Result<bool, PortError> {
        self.layer.flush(&mut self.port)
    }

    fn queued(&self) -> usize {
        self.layer.queued(&self.port)
    }

    fn batches_mixed_packets(&self) -> bool {
        self.port.batches_mixed_packets()
    }

    fn has_looped(&self) -> bool {
        self.port.has_looped()
    }

    fn packet_fds(&self) -> Vec<PortFd<'_>> {
        self.layer.packet_fds(&self.port)
    }

    fn network_fd(&self) -> Option<BorrowedFd<'_>> {
        self.port.network_fd()
    }

    fn next_deadline(&self) -> Option<Duration> {
        let own = self.layer.next_deadline().into_iter();
        own.chain(self.port.next_deadline()).min()
    }

    fn follow_network(&mut self) -> Result<(), PortError> {
        self.port.follow_network()
    }

    fn each_counter(&self) -> Vec<(&'static str, u64)> {
        let mut counters = self.port.each_counter();
        for (name, count) in self.layer.each_counter() {
            match counters.iter_mut().find(|(other, _)| *other == name) {
                Some((_, sum)) => *sum += count,
                None => counters.push((name, count)),
            }
        }
        counters
    }

    fn lane_packets(&self) -> u64 {
        self.layer.lane_packets() + self.port.lane_packets()
    }

    fn each_queue(&self) -> Vec<PortQueue> {
        self.port.each_queue()
    }

    fn neighbours(&mut self) -> Option<&mut dyn Neighbours> {
        self.port.neighbours()
    }

    fn steering(&mut self) -> Option<&mut dyn Steering> {
        self.port.steering()
    }
}
