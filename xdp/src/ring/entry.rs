//! The entries of rings.

/// One piece of a frame, in the rings for receiving and sending (`struct xdp_desc`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Offset of the piece in the UMEM, in bytes.
    pub address: u64,
    /// Length of the piece in bytes.
    pub len: u32,
    /// Flags; see [`Descriptor::CONTINUED`] and [`Descriptor::METADATA`].
    pub options: u32,
}

impl Descriptor {
    /// Another piece of the same frame follows (`XDP_PKT_CONTD`).
    pub const CONTINUED: u32 = libc::XDP_PKT_CONTD;

    /// The frame has metadata in front (`XDP_TX_METADATA`).
    pub const METADATA: u32 = libc::XDP_TX_METADATA;

    /// Whether another piece of the same frame follows.
    pub fn is_continued(&self) -> bool {
        self.options & Self::CONTINUED != 0
    }
}

/// An entry of a ring, stored in shared memory as one or two words.
pub trait Entry: Copy {
    /// Length of an entry in 64-bit words: 1 or 2.
    const WORDS: usize;

    /// The entry as words. Words after [`Entry::WORDS`] are ignored.
    fn to_words(self) -> [u64; 2];

    /// An entry from words.
    fn from_words(words: [u64; 2]) -> Self;
}

/// An address in the UMEM: an entry of the fill ring or the completion ring.
impl Entry for u64 {
    const WORDS: usize = 1;

    fn to_words(self) -> [u64; 2] {
        [self, 0]
    }

    fn from_words(words: [u64; 2]) -> Self {
        words[0]
    }
}

impl Entry for Descriptor {
    const WORDS: usize = 2;

    fn to_words(self) -> [u64; 2] {
        let ([a, b, c, d], [e, f, g, h]) = (self.len.to_ne_bytes(), self.options.to_ne_bytes());
        [self.address, u64::from_ne_bytes([a, b, c, d, e, f, g, h])]
    }

    fn from_words(words: [u64; 2]) -> Self {
        let [a, b, c, d, e, f, g, h] = words[1].to_ne_bytes();
        Self {
            address: words[0],
            len: u32::from_ne_bytes([a, b, c, d]),
            options: u32::from_ne_bytes([e, f, g, h]),
        }
    }
}
