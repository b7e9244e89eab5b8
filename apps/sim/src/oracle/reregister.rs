//! Regions that are registered again with the same key: rights, protection domain or memory change
//! between two packets.

use super::area::Content;
use super::flow::Flow;
use super::request::Effect;
use super::{Area, Oracle, Verdict, Violation, about};
use roce_stack::{Access, WcStatus};

/// The access that a target's key grants after a change.
#[derive(Debug)]
pub struct Reregistration {
    /// The rights of the peer; none if the region is in another protection domain.
    pub access: Access,
    /// Whether its address is the same.
    pub keeps_address: bool,
    /// The model of its memory, if it is another.
    pub moved: Option<Area>,
}

impl Reregistration {
    /// Whether a request that was posted before may be executed after the change.
    fn grants(&self, effect: &Effect) -> bool {
        let needed = match effect {
            Effect::Write { .. } => Access::REMOTE_WRITE,
            Effect::Read { .. } => Access::REMOTE_READ,
            // One of a whole region needs no address, so it may be executed even if the region has
            // another.
            Effect::Flush => Access::FLUSH_GLOBAL,
            _ => return true,
        };
        self.keeps_address && self.access.contains(needed)
    }
}

impl Flow {
    /// The target was registered again. Returns whether any request in flight may be refused now.
    fn reregistered(&mut self, key: u32, change: Reregistration) -> Result<bool, Violation> {
        let users: Vec<usize> = self.open_uses(key).collect();
        let mut used = false;
        for &id in &users {
            let grants = change.grants(&self.sends[id].effect);
            if self.sends[id].denied && grants {
                self.may_be_granted(id);
            } else if grants && change.moved.is_none() {
                self.may_go_on(id);
            } else if !grants && !self.sends[id].is_refused() {
                self.keys.uncertain.insert(id);
                used = true;
            }
            let writes = matches!(self.sends[id].effect, Effect::Write { .. });
            if !writes || self.sends[id].fails {
                continue;
            }
            // A WRITE that may have found the memory before a move has unknown results everywhere.
            let keeps = grants && change.moved.is_none();
            if keeps || self.relocated.contains(&id) || self.end_write(id) || grants {
                continue;
            }
            // Another change may grant it again before it arrives.
            let send = &mut self.sends[id];
            (send.fails, send.denied) = (true, true);
            send.statuses = &[WcStatus::RemoteAccessError];
        }
        if let Some(area) = change.moved {
            self.move_target(area, &users)?;
        }
        Ok(used)
    }

    /// Request `id` was denied when it was posted, and may arrive after the change.
    fn may_be_granted(&mut self, id: usize) {
        let send = &mut self.sends[id];
        (send.denied, send.fails, send.statuses) = (false, false, &[]);
        self.keys.uncertain.insert(id);
        self.may_go_on(id);
    }

    /// If request `id` is a WRITE that was not refused, it may be executed after the change, even
    /// if it seemed to be over: a later WRITE may have the same byte in its place.
    fn may_go_on(&mut self, id: usize) {
        let send = &self.sends[id];
        if let Effect::Write { at, bytes, .. } = &send.effect
            && !send.fails
        {
            let content = Content::Known(bytes.clone());
            self.areas.target.resume(id, *at, content);
        }
    }

    /// The target consists of other memory. Requests in flight may find the old one, the new one, or
    /// both.
    fn move_target(&mut self, area: Area, users: &[usize]) -> Verdict {
        let mut old = core::mem::replace(&mut self.areas.target, area);
        old.freeze().map_err(about("old target"))?;
        self.retired.push(old);
        self.forget_target_of_readers();
        for &id in users {
            let send = &self.sends[id];
            let Effect::Write { at, bytes, .. } = &send.effect else {
                continue;
            };
            // One that is denied now may have begun before, and may go on after another change.
            if send.denied || !send.fails {
                self.relocated.insert(id);
            }
            if !send.fails {
                let content = Content::Known(bytes.clone());
                self.areas.target.begin(id, *at, content);
            }
        }
        Ok(())
    }
}

impl Oracle {
    /// The target of `side` was registered again with its key.
    ///
    /// # Errors
    /// If the contents of memory break a promise.
    pub fn reregistered(
        &mut self,
        pair: usize,
        side: usize,
        key: u32,
        change: Reregistration,
    ) -> Verdict {
        let known = self.pair(pair);
        let used = known.flows[side].reregistered(key, change)?;
        known.qps[1 - side].may_be_broken |= used;
        Ok(())
    }
}
