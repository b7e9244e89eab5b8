//! The state that an open device and its objects share.

use crate::objects::Registry;
use crate::prelude::*;
use roce_verbs::device::{AsyncEvents, ObjectCounts};
use roce_verbs::qp::XrcFiles;
use std::os::fd::OwnedFd;

#[repr(C)]
pub(crate) struct Context {
    pub(crate) c: CPart<VerbsContext>,
    pub(crate) state: Arc<State>,
    /// Counts this context in [`State::contexts`].
    pub(crate) opened: Use,
    /// The descriptor with which `ibv_import_device` imports the context (`cmd_fd`).
    pub(crate) _command: OwnedFd,
}

// SAFETY: `c` is the first field, and `context` the last field of the C structure there.
unsafe impl Part for IbvContext {
    type Object = Context;
    const OFFSET: usize = std::mem::offset_of!(VerbsContext, context);
}

/// The state that a context shares with its objects.
pub(crate) struct State {
    pub(crate) roce: roce_verbs::Context,
    pub(crate) device: Handle<IbvDevice>,
    pub(crate) events: AsyncEvents,
    pub(crate) objects: Registry,
    /// The numbers of objects of the limited kinds.
    pub(crate) counts: ObjectCounts,
    /// The XRC domains that files identify. They last as long as the context.
    pub(crate) xrc_files: XrcFiles,
    /// The contexts that share this state: the opened one, and its imports.
    pub(crate) contexts: Users,
}

impl State {
    /// # Errors
    /// `EINVAL` if an object of this context is used with one of another. The same number, such as
    /// a QPN or a key, names different objects in the two contexts.
    pub(crate) fn check_same(&self, other: &Self) -> Result<(), Errno> {
        if std::ptr::eq(self, other) {
            Ok(())
        } else {
            Err(with_reason(Errno::EINVAL, || {
                "the objects belong to different contexts: one ibv_open_device must have opened both"
                    .to_owned()
            }))
        }
    }
}

/// # Errors
/// `EINVAL` for any port other than 1.
pub(crate) fn check_port(port: u32) -> Result<(), Errno> {
    if port == 1 {
        Ok(())
    } else {
        Err(with_reason(Errno::EINVAL, || {
            format!("the port is {port}, but the device has only port 1")
        }))
    }
}
