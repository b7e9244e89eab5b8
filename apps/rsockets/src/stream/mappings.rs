//! Memory of the program that the peer may write directly, and the peer's memory of that kind.

use super::Stream;
use super::endpoint::ELEMENTS;
use crate::error::Error;
use crate::stream::Gather;
use crate::wire::{ByteOrder, ConnectData, ELEMENT_LEN, Element, MAPPING_LEN, Mapping, Message};
use nix::errno::Errno;
use roce_verbs::RemoteAddr;
use roce_verbs::memory::Registration;
use roce_verbs::work::{Payload, SendOp};
use std::collections::VecDeque;

/// The largest direct write, as of a transfer.
const LARGEST_WRITE: usize = super::outbox::LARGEST_TRANSFER;

/// The program's own mappings.
pub(super) struct Mappings {
    /// Those that the peer may use, at their places in its list.
    places: Vec<Option<Mapped>>,
    /// The places that the peer has not been told of.
    untold: VecDeque<usize>,
    /// Those that only this end uses.
    local: Vec<Mapped>,
}

/// A mapping of the program.
struct Mapped {
    address: u64,
    len: usize,
    offset: u64,
    registration: Registration,
}

impl Mappings {
    pub(super) fn new(peer: &ConnectData) -> Self {
        let mut places = Vec::new();
        places.resize_with(usize::from(peer.mappings.unwrap_or(0)), || None);
        Self {
            places,
            untold: VecDeque::new(),
            local: Vec::new(),
        }
    }

    /// Whether the peer has not been told of all.
    fn has_untold(&self) -> bool {
        !self.untold.is_empty()
    }
}

impl Stream {
    /// Maps memory to an offset. The peer is told before the next data. With `remote`, it may write
    /// there.
    pub(crate) fn map(
        &mut self,
        registration: Registration,
        offset: u64,
        remote: bool,
    ) -> Result<(), Error> {
        let mapped = Mapped {
            address: registration.addr(),
            len: usize::try_from(registration.len()).unwrap_or(usize::MAX),
            offset,
            registration,
        };
        if !remote {
            self.mappings.local.push(mapped);
            return Ok(());
        }
        let places = &mut self.mappings.places;
        let count = places.len();
        let Some(free) = places.iter().position(Option::is_none) else {
            let what =
                format!("the peer takes {count} mappings (RDMA_IOMAPSIZE), which are in use");
            return Err(Error::new(Errno::ENOMEM, what));
        };
        places[free] = Some(mapped);
        self.mappings.untold.push_back(free);
        Ok(())
    }

    /// Removes the mapping of this memory.
    pub(crate) fn unmap(&mut self, address: u64, len: usize) -> Result<(), Error> {
        let is_it = |mapped: &Mapped| mapped.address == address && mapped.len == len;
        let Mappings {
            places,
            untold,
            local,
        } = &mut self.mappings;
        if let Some(at) = local.iter().position(is_it) {
            local.swap_remove(at);
            return Ok(());
        }
        let place = places
            .iter()
            .position(|place| place.as_ref().is_some_and(is_it));
        let Some(place) = place else {
            let what = format!("{len} bytes at {address:#x} are not mapped");
            return Err(Error::new(Errno::EINVAL, what));
        };
        places[place] = None;
        untold.retain(|told| *told != place);
        Ok(())
    }

    /// Tells the peer of mappings, as far as there is room. Returns whether it has been told of all.
    pub(crate) fn tell_mappings(&mut self) -> Result<bool, Errno> {
        while self.mappings.has_untold() && self.may_speak() {
            if !self.outbox.plan_mapping() {
                return Ok(false);
            }
            let Some(place) = self.mappings.untold.pop_front() else {
                break;
            };
            let Some(mapped) = &self.mappings.places[place] else {
                continue;
            };
            let mapping = Mapping {
                offset: mapped.offset,
                element: Element {
                    address: mapped.address,
                    key: mapped.registration.rkey(),
                    len: u32::try_from(mapped.len).unwrap_or(u32::MAX),
                },
            };
            let list = u64::from(self.peer.elements.len) * ELEMENT_LEN as u64;
            let skipped = list + (place * MAPPING_LEN) as u64;
            let to = RemoteAddr {
                addr: self.peer.elements.address.wrapping_add(skipped),
                rkey: self.peer.elements.key,
            };
            let imm = Message::Mapping(place as u32).encode();
            let bytes = mapping.encode(self.peer.order);
            self.post(SendOp::WriteImm(to, imm), Payload::Inline(&bytes))?;
        }
        Ok(!self.mappings.has_untold())
    }

    /// Writes bytes of `data` into memory that the peer has mapped, from `offset` on: as many as the
    /// mappings and the send buffer have room for.
    pub(crate) fn write_mapped(
        &mut self,
        data: &mut Gather<'_>,
        mut offset: u64,
    ) -> Result<usize, Errno> {
        let before = data.left();
        while data.left() > 0 && self.may_speak() {
            let Some((address, key, room)) = self.mapped_by_peer(offset) else {
                break;
            };
            let wanted = data.left().min(room as usize).min(LARGEST_WRITE);
            let Some(stretches) = self.outbox.plan_direct(wanted) else {
                break;
            };
            let to = RemoteAddr {
                addr: address,
                rkey: key,
            };
            let written = stretches[0].len() + stretches[1].len();
            self.post_from_ring(SendOp::Write(to), &stretches, data)?;
            offset = offset.wrapping_add(written as u64);
        }
        Ok(before - data.left())
    }

    /// The address, the key and the number of bytes that the peer has mapped at an offset.
    fn mapped_by_peer(&self, offset: u64) -> Option<(u64, u32, u32)> {
        (0..usize::from(self.endpoint.sizes.mappings)).find_map(|place| {
            let mut bytes = [0; MAPPING_LEN];
            let at = ELEMENTS * ELEMENT_LEN + place * MAPPING_LEN;
            self.endpoint.offers.read(at, &mut bytes).ok()?;
            let mapping = Mapping::parse(&bytes, ByteOrder::NATIVE);
            let (address, room) = mapping.at(offset)?;
            Some((address, mapping.element.key, room))
        })
    }

    /// Whether the peer has mapped anything at an offset.
    pub(crate) fn is_mapped_by_peer(&self, offset: u64) -> bool {
        self.mapped_by_peer(offset).is_some()
    }
}
