//! Private data: bytes that the consumers exchange, and that communication management does not
//! interpret.

/// At most `N` bytes of private data.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PrivateData<'a, const N: usize>(&'a [u8]);

impl<'a, const N: usize> PrivateData<'a, N> {
    /// The maximum number of bytes that the message carries.
    pub const MAX: usize = N;

    /// No data: zeros on the wire.
    pub const NONE: Self = Self(&[]);

    /// These bytes; `None` if there are more than `N`.
    pub const fn new(bytes: &'a [u8]) -> Option<Self> {
        if bytes.len() > N {
            None
        } else {
            Some(Self(bytes))
        }
    }

    /// The bytes. In a received message there are always `N`.
    pub const fn bytes(self) -> &'a [u8] {
        self.0
    }

    /// The `N` bytes from `at` on. Empty if `data` is shorter.
    pub(super) fn read(data: &'a super::Data, at: usize) -> Self {
        Self(data[at..].first_chunk::<N>().map_or(&[], |all| all))
    }

    /// Writes the bytes at `at`.
    pub(super) fn write(self, data: &mut super::Data, at: usize) {
        data[at..at + self.0.len()].copy_from_slice(self.0);
    }
}
