//! Registrations of memory, with what they use.

use crate::prelude::*;
use roce_verbs::device::CountedObject;
use roce_verbs::memory::ProgramRegion;

/// A registration. `ibv_dereg_mr` ends it, and so does closing the context.
pub(crate) struct Region {
    pub(crate) memory: Arc<ProgramRegion>,
    pub(crate) handle: u32,
    /// Until it is deregistered.
    uses: Mutex<Option<Uses>>,
}

/// The objects that a region keeps in use.
pub(crate) struct Uses {
    pub(crate) pd: Use,
    /// The device memory that the region lies in, if it does.
    pub(crate) device_memory: Option<Use>,
    /// Counts towards the limit of regions.
    pub(crate) _counted: CountedObject,
}

impl Region {
    pub(crate) fn new(memory: Arc<ProgramRegion>, handle: u32, uses: Uses) -> Self {
        Self {
            memory,
            handle,
            uses: Mutex::new(Some(uses)),
        }
    }

    /// Deregisters the region even if windows are bound to it.
    pub(crate) fn close(&self) {
        self.memory.close();
        self.uses.lock().take();
    }

    /// # Errors
    /// `EBUSY` while windows are bound to it.
    pub(crate) fn deregister(&self) -> Result<(), Errno> {
        self.memory.deregister().or_errno()?;
        self.uses.lock().take();
        Ok(())
    }

    /// The region lies in other memory from now on.
    pub(crate) fn leave_device_memory(&self) {
        if let Some(uses) = &mut *self.uses.lock() {
            uses.device_memory = None;
        }
    }

    /// The region belongs to another domain from now on.
    pub(crate) fn set_domain(&self, pd: Use) {
        if let Some(uses) = &mut *self.uses.lock() {
            uses.pd = pd;
        }
    }
}
