//! The commands of an I/O queue.

use super::offer::Shape;
use super::session::{Decision, Session, check_len, in_capsule, memory_for, sgl};
use super::step::{Action, Answer, Data, Extent};
use crate::wire::io::{Blocks, Request};
use crate::wire::{Command, Sgl, Status};

/// Flush: all namespaces.
const ALL_NAMESPACES: u32 = 0xffff_ffff;

impl Session {
    /// The action for a command whose capsule has `data_len` bytes of data.
    pub(super) fn io(&self, command: &Command, data_len: usize) -> Decision {
        match Request::parse(command)? {
            Request::Flush { namespace } => self.flush(namespace),
            Request::Read(blocks) => {
                let (_, extent) = self.extent(&blocks)?;
                let to = memory_for(command, extent.len.into())?;
                Ok(Action::Read { extent, to })
            }
            Request::Write { blocks, durable } => {
                let (shape, extent) = self.extent(&blocks)?;
                if shape.read_only {
                    return Err(Status::NAMESPACE_WRITE_PROTECTED.do_not_retry().into());
                }
                let sgl = sgl(command)?;
                check_len(sgl.len(), extent.len.into())?;
                let data = match sgl {
                    Sgl::InCapsule { offset, len } => {
                        Data::InCapsule(in_capsule(offset, len, data_len)?)
                    }
                    Sgl::Keyed(keyed) => Data::AtHost(keyed),
                };
                Ok(Action::Write {
                    extent,
                    data,
                    durable,
                })
            }
        }
    }

    fn flush(&self, namespace: u32) -> Decision {
        match namespace {
            ALL_NAMESPACES => Ok(Action::Flush(0..self.controllers.offer.namespaces.len())),
            number => {
                let (index, _) = self.namespace(number)?;
                Ok(Action::Flush(index..index + 1))
            }
        }
    }

    /// The index and the shape of a namespace.
    pub(super) fn namespace(&self, number: u32) -> Result<(usize, &Shape), Answer> {
        let index = (number as usize).wrapping_sub(1);
        let shape = self.controllers.offer.namespaces.get(index);
        let shape = shape.ok_or(Status::INVALID_NAMESPACE.do_not_retry())?;
        Ok((index, shape))
    }

    /// The bytes of a transfer.
    fn extent(&self, blocks: &Blocks) -> Result<(&Shape, Extent), Answer> {
        let (namespace, shape) = self.namespace(blocks.namespace)?;
        let end = blocks.first.checked_add(blocks.count.into());
        if end.is_none_or(|end| end > shape.blocks) {
            return Err(Status::LBA_OUT_OF_RANGE.do_not_retry().into());
        }
        let len = u64::from(blocks.count) << shape.block_shift();
        if len > self.controllers.offer.limits.max_transfer() {
            return Err(Status::INVALID_FIELD.do_not_retry().into());
        }
        let extent = Extent {
            namespace,
            offset: blocks.first << shape.block_shift(),
            len: len as u32,
        };
        Ok((shape, extent))
    }
}
