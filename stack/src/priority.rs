//! The 802.1Q priority of packets.

/// The 802.1Q priority (0 to 7) of packets with each DSCP. The default is the upper three bits of
/// the DSCP, which is the default of switches and adapters, too.
///
/// ```
/// use roce_stack::PriorityMap;
///
/// let mut map = PriorityMap::default();
/// map.set(26, 5);
/// // DSCP 26, ECN-capable.
/// assert_eq!(map.of(26 << 2 | 2), 5);
/// assert_eq!(map.of(48 << 2), 6);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PriorityMap([u8; 64]);

impl Default for PriorityMap {
    fn default() -> Self {
        Self(core::array::from_fn(|dscp| (dscp >> 3) as u8))
    }
}

impl PriorityMap {
    /// The priority of a packet with this traffic class: DSCP in the upper six bits.
    pub fn of(&self, traffic_class: u8) -> u8 {
        self.0[usize::from(traffic_class >> 2)]
    }

    /// Sets the priority of packets with a DSCP. Only the lower six bits of the DSCP and the lower
    /// three of the priority count.
    pub fn set(&mut self, dscp: u8, priority: u8) {
        self.0[usize::from(dscp & 63)] = priority & 7;
    }

    /// The DSCPs whose priority differs from the default, with their priorities.
    pub fn changed(&self) -> impl Iterator<Item = (u8, u8)> {
        let first = Self::default();
        let both = (0..64).zip(self.0.into_iter().zip(first.0));
        both.filter_map(|(dscp, (now, then))| (now != then).then_some((dscp, now)))
    }
}
