//! Completion queues that the library makes for the QPs and SRQs of IDs.

use crate::prelude::*;
use crate::{channel, cq};

pub(super) type Queue = (Handle<IbvCompChannel>, Handle<IbvCq>);

/// The send CQ and the receive CQ that the library created for a QP.
#[derive(Clone, Copy, Default)]
pub(super) struct NewCqs(pub(super) [Option<Queue>; 2]);

impl NewCqs {
    /// Creates the CQs that the program did not provide. `owner` becomes their `cq_context`.
    pub(super) fn make(
        context: Handle<IbvContext>,
        owner: *mut c_void,
        given: [&mut Handle<IbvCq>; 2],
        depths: [Option<u32>; 2],
    ) -> Result<Self, Errno> {
        let mut new = Self::default();
        for (index, (given, depth)) in given.into_iter().zip(depths).enumerate() {
            if given.as_ptr().is_null()
                && let Some(depth) = depth
            {
                let queue =
                    create_cq_with_channel(context, depth, owner).inspect_err(|_| new.destroy())?;
                *given = queue.1;
                new.0[index] = Some(queue);
            }
        }
        Ok(new)
    }

    pub(super) fn destroy(&self) {
        for (channel, queue) in self.0.iter().flatten() {
            destroy_queue((*channel, *queue));
        }
    }
}

/// Destroys a CQ and its channel, unless they are in use.
pub(super) fn destroy_queue((channel, queue): Queue) {
    cq::destroy_cq(queue);
    channel::destroy_comp_channel(channel);
}

/// Creates a CQ with a completion channel. `owner` becomes its `cq_context`.
///
/// # Errors
/// `EINVAL` if `depth` exceeds the maximum, or the error of creating the CQ or the channel.
pub(super) fn create_cq_with_channel(
    context: Handle<IbvContext>,
    depth: u32,
    owner: *mut c_void,
) -> Result<Queue, Errno> {
    let depth = c_int::try_from(depth).map_err(|_| Errno::EINVAL)?.max(1);
    let channel = Handle::from_ptr(channel::create(context)?);
    let queue = cq::create_plain(context, depth, owner, channel, 0).inspect_err(|_| {
        channel::destroy_comp_channel(channel);
    })?;
    Ok((channel, Handle::from_ptr(queue)))
}
