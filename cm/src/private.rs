//! The private data of messages, as owners see it.

use core::fmt;
use core::ops::Deref;

/// The private data of a message, which only the two owners interpret. Received private data has
/// the full length that the message can carry; if the sender gave less, zeros follow.
///
/// ```
/// # use roce_cm::PrivateBytes;
/// let private = PrivateBytes::from(b"hello\0\0\0".to_vec());
/// assert_eq!(private.len(), 8);
/// assert_eq!(private.trimmed(), b"hello");
/// assert_eq!(format!("{private:?}"), "\"hello\" and 3 zeros");
/// ```
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PrivateBytes(pub Vec<u8>);

impl PrivateBytes {
    /// The bytes before the zeros at the end. Data that may itself end with zeros needs a length of
    /// its own.
    pub fn trimmed(&self) -> &[u8] {
        let end = self.0.iter().rposition(|&byte| byte != 0);
        &self.0[..end.map_or(0, |last| last + 1)]
    }
}

impl Deref for PrivateBytes {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Vec<u8>> for PrivateBytes {
    fn from(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }
}

impl From<PrivateBytes> for Vec<u8> {
    fn from(private: PrivateBytes) -> Self {
        private.0
    }
}

impl PartialEq<Vec<u8>> for PrivateBytes {
    fn eq(&self, other: &Vec<u8>) -> bool {
        self.0 == *other
    }
}

impl fmt::Debug for PrivateBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.trimmed();
        match self.0.len() - text.len() {
            0 => write!(f, "\"{}\"", text.escape_ascii()),
            zeros if text.is_empty() => write!(f, "{zeros} zeros"),
            zeros => write!(f, "\"{}\" and {zeros} zeros", text.escape_ascii()),
        }
    }
}
