//! Mappings: memory that the other end may write directly, for `riomap` and `riowrite`.

use super::Stream;
use super::endpoint::ELEMENTS;
use super::outbox::LARGEST_TRANSFER;
use crate::error::Error;
use crate::stream::Gather;
use crate::wire::{ByteOrder, ConnectData, ELEMENT_LEN, Element, MAPPING_LEN, Mapping, Message};
use nix::errno::Errno;
use roce_verbs::RemoteAddr;
use roce_verbs::memory::Registration;
use roce_verbs::work::{Payload, SendOp};
use std::collections::VecDeque;

/// The program's own mappings.
pub(super) struct Mappings {
    /// Mappings that the peer may use, by their place in its list.
    places: Vec<Option<Mapped>>,
    /// The places that have not been announced to the peer.
    unannounced: VecDeque<usize>,
    /// Mappings that only this end uses.
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
            unannounced: VecDeque::new(),
            local: Vec::new(),
        }
    }

    fn has_unannounced(&self) -> bool {
        !self.unannounced.is_empty()
    }
}

impl Stream {
    /// Maps memory to an offset. With `remote`, the peer may write there; the mapping is announced before
    /// the next data.
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
                format!("all {count} mappings that the peer allows (RDMA_IOMAPSIZE) are in use");
            return Err(Error::new(Errno::ENOMEM, what));
        };
        places[free] = Some(mapped);
        self.mappings.unannounced.push_back(free);
        Ok(())
    }

    /// Removes the mapping of this memory.
    pub(crate) fn unmap(&mut self, address: u64, len: usize) -> Result<(), Error> {
        let is_it = |mapped: &Mapped| mapped.address == address && mapped.len == len;
        let Mappings {
            places,
            unannounced,
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
        unannounced.retain(|told| *told != place);
        Ok(())
    }

    /// Announces mappings to the peer while there is room. Returns whether all are announced.
    pub(crate) fn announce_mappings(&mut self) -> Result<bool, Errno> {
        while self.mappings.has_unannounced() && self.can_send() {
            if !self.outbox.plan_mapping() {
                return Ok(false);
            }
            let Some(place) = self.mappings.unannounced.pop_front() else {
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
        Ok(!self.mappings.has_unannounced())
    }

    /// Writes bytes of `data` to the peer's mappings from `offset` on, as many as fit into the mappings
    /// and the send buffer.
    pub(crate) fn write_mapped(
        &mut self,
        data: &mut Gather<'_>,
        mut offset: u64,
    ) -> Result<usize, Errno> {
        let before = data.left();
        while data.left() > 0 && self.can_send() {
            let Some((address, key, room)) = self.mapped_by_peer(offset) else {
                break;
            };
            let wanted = data.left().min(room as usize).min(LARGEST_TRANSFER);
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

    /// The address, key and remaining length of the peer's mapping at an offset.
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

    /// Whether the peer has a mapping at an offset.
    pub(crate) fn is_mapped_by_peer(&self, offset: u64) -> bool {
        self.mapped_by_peer(offset).is_some()
    }
}
