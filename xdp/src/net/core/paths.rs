//! The paths in use, in a table of bounded size.

use std::collections::HashMap;
use std::net::IpAddr;

use super::super::event::PathKey;
use super::super::reasons::Refusal;
use super::super::template::Template;

/// The state of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The kernel has been asked where the path leads.
    Pending,
    /// No packet can be sent on the path.
    Refused(Refusal),
    /// Packets can be sent on the path. It leads to the next hop `hop` or, without one, directly to
    /// a multicast group or to another interface of this host.
    Open {
        template: Box<Template>,
        hop: Option<IpAddr>,
        /// Whether the template has the next hop's Ethernet address.
        resolved: bool,
    },
}

/// A path, and how recently it was used.
#[derive(Clone, Debug)]
pub(super) struct Path {
    pub(super) key: PathKey,
    pub(super) verdict: Verdict,
    /// The generation that the verdict belongs to. The verdict of an older generation is determined
    /// again.
    pub(super) generation: u64,
    /// Whether the path was used since the last tick.
    pub(super) used: bool,
    /// The reference bit of the clock replacement algorithm: whether the path was used since the
    /// hand last passed it.
    referenced: bool,
}

impl Path {
    /// Makes the next use of the path determine the verdict again.
    pub(super) fn outdate(&mut self) {
        // Generations start at 1.
        self.generation = 0;
    }

    /// Whether packets can be sent with the template as it is.
    #[inline]
    pub(super) fn is_resolved(&self) -> bool {
        matches!(self.verdict, Verdict::Open { resolved: true, .. })
    }

    /// Marks the path as used by a packet.
    #[inline]
    fn note_use(&mut self) {
        self.used = true;
        self.referenced = true;
    }

    /// The next hop, if the path has one.
    pub(super) fn hop(&self) -> Option<IpAddr> {
        match self.verdict {
            Verdict::Open { hop, .. } => hop,
            _ => None,
        }
    }
}

/// The number of slots in the cache of paths that were found recently.
const RECENT_SLOTS: usize = 64;

/// The paths. If the table is full, a new path replaces one that was not used recently.
#[derive(Debug)]
pub(super) struct Paths {
    paths: Vec<Path>,
    index: HashMap<PathKey, usize>,
    /// The cache: positions to try before searching the table.
    recent: [usize; RECENT_SLOTS],
    /// The clock hand: the next path to consider for replacement.
    hand: usize,
    limit: usize,
}

impl Paths {
    /// A table of at most `limit` paths.
    pub(super) fn new(limit: usize) -> Paths {
        Paths {
            paths: Vec::new(),
            index: HashMap::new(),
            recent: [0; RECENT_SLOTS],
            hand: 0,
            limit: limit.max(1),
        }
    }

    /// Returns the position of the path, and marks the path as used.
    pub(super) fn find(&mut self, key: PathKey) -> Option<usize> {
        let slot = &mut self.recent[recent_slot(key.dst)];
        let matches_key = |path: &Path| path.key == key;
        if !self.paths.get(*slot).is_some_and(matches_key) {
            *slot = *self.index.get(&key)?;
        }
        let at = *slot;
        self.paths[at].note_use();
        Some(at)
    }

    /// As [`Paths::find`], but only for a path that was found recently. Also returns the path.
    #[inline]
    pub(super) fn find_recent(&mut self, key: &PathKey) -> Option<(usize, &Path)> {
        let at = self.recent[recent_slot(key.dst)];
        let path = self.paths.get_mut(at).filter(|path| path.key == *key)?;
        path.note_use();
        Some((at, path))
    }

    /// Adds a path that is not in the table, and returns its position. May replace another path.
    pub(super) fn add(&mut self, key: PathKey) -> usize {
        let path = Path {
            key,
            verdict: Verdict::Pending,
            generation: 0,
            used: true,
            referenced: true,
        };
        let at = if self.paths.len() < self.limit {
            self.paths.push(path);
            self.paths.len() - 1
        } else {
            let at = self.find_victim();
            self.index.remove(&self.paths[at].key);
            self.paths[at] = path;
            at
        };
        self.index.insert(key, at);
        at
    }

    /// The next path that was not used since the hand last passed it.
    fn find_victim(&mut self) -> usize {
        loop {
            let at = self.hand;
            self.hand = (at + 1) % self.paths.len();
            if !std::mem::take(&mut self.paths[at].referenced) {
                return at;
            }
        }
    }

    pub(super) fn at(&self, at: usize) -> &Path {
        &self.paths[at]
    }

    pub(super) fn at_mut(&mut self, at: usize) -> &mut Path {
        &mut self.paths[at]
    }

    /// The path between two addresses, without marking it as used.
    pub(super) fn peek_mut(&mut self, key: PathKey) -> Option<&mut Path> {
        let at = *self.index.get(&key)?;
        self.paths.get_mut(at)
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Path> {
        self.paths.iter_mut()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Path> {
        self.paths.iter()
    }
}

/// The cache slot for this destination.
fn recent_slot(dst: IpAddr) -> usize {
    let low = match dst {
        IpAddr::V4(dst) => dst.octets()[3],
        IpAddr::V6(dst) => dst.octets()[15],
    };
    usize::from(low) % RECENT_SLOTS
}
