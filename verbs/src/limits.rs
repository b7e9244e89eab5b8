//! The maximum number of objects of each kind in an open device. Only memory really limits them, but
//! some C programs test that the maxima that `ibv_query_device` reports are enforced. QPs and shared
//! receive queues are not listed here: the range of their numbers limits them, in the NIC.

use std::fmt;
use std::sync::Arc;

/// A kind of object whose number in an open device is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LimitedObject {
    /// Protection domains.
    ProtectionDomain,
    /// Memory regions.
    MemoryRegion,
    /// Memory windows.
    MemoryWindow,
    /// Address handles.
    AddressHandle,
    /// Completion queues.
    CompletionQueue,
    /// Completion counters.
    CompletionCounter,
}

const KINDS: usize = 6;

impl LimitedObject {
    /// The maximum number of these objects in an open device.
    pub const fn max(self) -> usize {
        match self {
            Self::ProtectionDomain => 1 << 15,
            Self::MemoryRegion | Self::MemoryWindow => 1 << 20,
            // As many as QPs.
            Self::AddressHandle | Self::CompletionQueue | Self::CompletionCounter => 1 << 17,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Self::ProtectionDomain => "protection domains",
            Self::MemoryRegion => "memory regions",
            Self::MemoryWindow => "memory windows",
            Self::AddressHandle => "address handles",
            Self::CompletionQueue => "completion queues",
            Self::CompletionCounter => "completion counters",
        }
    }
}

/// The number of objects of each limited kind in an open device, for a caller that enforces the
/// maxima.
#[derive(Debug, Default)]
pub struct ObjectCounts([Arc<()>; KINDS]);

/// One object in [`ObjectCounts`], until it is dropped.
#[derive(Debug)]
pub struct CountedObject(#[expect(dead_code, reason = "its count is what matters")] Arc<()>);

impl ObjectCounts {
    /// Counts one more object. If two threads race for the last place, both may fail.
    ///
    /// # Errors
    /// If the device already has the maximum.
    pub fn add(&self, kind: LimitedObject) -> Result<CountedObject, TooManyObjects> {
        self.add_up_to(kind, kind.max())
    }

    fn add_up_to(&self, kind: LimitedObject, max: usize) -> Result<CountedObject, TooManyObjects> {
        let objects = &self.0[kind as usize];
        let one = CountedObject(Arc::clone(objects));
        // One of the references belongs to the counts.
        if Arc::strong_count(objects) - 1 > max {
            return Err(TooManyObjects { kind });
        }
        Ok(one)
    }
}

/// A device has the maximum number of objects of a kind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct TooManyObjects {
    /// The kind.
    pub kind: LimitedObject,
}

impl fmt::Display for TooManyObjects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (max, name) = (self.kind.max(), self.kind.name());
        write!(
            f,
            "the open device has {max} {name}, which is its maximum: destroy one first"
        )
    }
}

debug_as_display!(TooManyObjects);

impl std::error::Error for TooManyObjects {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_objects_are_admitted_than_the_maximum() {
        let counts = ObjectCounts::default();
        let kind = LimitedObject::ProtectionDomain;
        let first = counts.add_up_to(kind, 2).expect("one of two");
        let _second = counts.add_up_to(kind, 2).expect("two of two");
        let third = counts.add_up_to(kind, 2);
        assert_eq!(third.map(drop), Err(TooManyObjects { kind }));
        let other = counts.add_up_to(LimitedObject::MemoryRegion, 1);
        assert!(other.is_ok(), "another kind");
        drop(first);
        assert!(counts.add_up_to(kind, 2).is_ok(), "the place of the first");
    }

    #[test]
    fn each_kind_has_a_count() {
        let counts = ObjectCounts::default();
        for kind in [
            LimitedObject::ProtectionDomain,
            LimitedObject::MemoryRegion,
            LimitedObject::MemoryWindow,
            LimitedObject::AddressHandle,
            LimitedObject::CompletionQueue,
            LimitedObject::CompletionCounter,
        ] {
            assert!(counts.add(kind).is_ok(), "{kind:?}");
        }
    }
}
