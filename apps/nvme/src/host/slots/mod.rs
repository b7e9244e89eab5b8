//! The commands of a queue that are outstanding, by their identifiers.
//!
//! A command is over when it was sent and answered. Until then its capsule's memory is in use, and
//! its identifier too.

use crate::wire::Response;
use std::fmt;
use std::time::Instant;

/// A slot for each command that may be outstanding. The index of a slot is the identifier of its
/// command.
#[derive(Debug)]
pub(crate) struct Slots {
    slots: Vec<Slot>,
    /// Slots that are free. The last one is taken next.
    free: Vec<u16>,
}

#[derive(Clone, Copy, Debug)]
enum Slot {
    Free,
    Posted {
        since: Instant,
        sent: bool,
        response: Option<Response>,
    },
}

/// A target has answered a command that is not outstanding, or that it has answered before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotOutstanding(u16);

impl fmt::Display for NotOutstanding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(id) = self;
        write!(
            f,
            "the target answered command {id:#x}, which is not outstanding"
        )
    }
}

impl Slots {
    /// `count` free slots.
    pub(crate) fn new(count: u16) -> Self {
        Self {
            slots: vec![Slot::Free; usize::from(count)],
            free: (0..count).rev().collect(),
        }
    }

    /// How many slots there are.
    pub(crate) fn count(&self) -> u16 {
        self.slots.len() as u16
    }

    /// How many are free.
    pub(crate) fn room(&self) -> usize {
        self.free.len()
    }

    /// Takes a free slot for a command that is posted at `now`; `None`: there is none.
    pub(crate) fn take(&mut self, now: Instant) -> Option<u16> {
        let id = self.free.pop()?;
        self.slots[usize::from(id)] = Slot::Posted {
            since: now,
            sent: false,
            response: None,
        };
        Some(id)
    }

    /// When the oldest command was posted.
    pub(crate) fn oldest(&self) -> Option<Instant> {
        let since = self.slots.iter().filter_map(|slot| match slot {
            Slot::Posted { since, .. } => Some(*since),
            Slot::Free => None,
        });
        since.min()
    }

    /// The command `id` has been sent. Returns it with its response, if it is over.
    pub(crate) fn sent(&mut self, id: u16) -> Option<(u16, Response)> {
        if let Some(Slot::Posted { sent, .. }) = self.slots.get_mut(usize::from(id)) {
            *sent = true;
        }
        self.finish(id)
    }

    /// The target has answered a command. Returns it with its response, if it is over.
    ///
    /// # Errors
    /// If the command is not outstanding, or was answered before.
    pub(crate) fn answered(
        &mut self,
        response: Response,
    ) -> Result<Option<(u16, Response)>, NotOutstanding> {
        let id = response.command_id;
        match self.slots.get_mut(usize::from(id)) {
            Some(Slot::Posted {
                response: slot @ None,
                ..
            }) => *slot = Some(response),
            _ => return Err(NotOutstanding(id)),
        }
        Ok(self.finish(id))
    }

    /// Frees the slot of a command that was both sent and answered.
    fn finish(&mut self, id: u16) -> Option<(u16, Response)> {
        let slot = self.slots.get_mut(usize::from(id))?;
        let Slot::Posted {
            sent: true,
            response: Some(response),
            ..
        } = *slot
        else {
            return None;
        };
        *slot = Slot::Free;
        self.free.push(id);
        Some((id, response))
    }
}

#[cfg(test)]
mod tests;
