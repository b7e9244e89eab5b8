//! Qualified names of hosts and subsystems.

use super::field;
use std::fmt;
use std::str::FromStr;

/// The longest name in bytes, without the zero that ends it (Base, 4.5).
const MAX_LEN: usize = 223;
/// The length of a field that holds a name.
pub(super) const FIELD_LEN: usize = 256;

/// An NVMe qualified name: at most 223 bytes of UTF-8 that begin with `nqn.` (Base, 4.5).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Nqn(String);

/// A text is no NVMe qualified name.
#[derive(Clone, PartialEq, Eq)]
pub struct NqnError(String);

impl fmt::Display for NqnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{:?} is no NVMe qualified name: such a name begins with \"nqn.\", has at most {MAX_LEN} \
             bytes and no spaces, for example nqn.2014-08.org.nvmexpress:disk1",
            self.0
        )
    }
}

impl fmt::Debug for NqnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for NqnError {}

impl Nqn {
    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The name in a field of 256 bytes.
    pub(super) fn parse_field(field: &[u8]) -> Result<Self, NqnError> {
        field::text(field).parse()
    }

    /// The field of 256 bytes that holds the name.
    pub(super) fn field(&self) -> [u8; FIELD_LEN] {
        let mut field = [0; FIELD_LEN];
        field::put(&mut field, 0, self.0.as_bytes());
        field
    }
}

impl FromStr for Nqn {
    type Err = NqnError;

    fn from_str(text: &str) -> Result<Self, NqnError> {
        let is_odd = |c: char| c.is_whitespace() || c.is_control() || c == '\u{fffd}';
        let fits = text.starts_with("nqn.") && text.len() > 4 && text.len() <= MAX_LEN;
        match fits && !text.contains(is_odd) {
            true => Ok(Self(text.to_owned())),
            false => Err(NqnError(text.chars().take(MAX_LEN + 1).collect())),
        }
    }
}

impl fmt::Display for Nqn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The identifier of a host: a UUID.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct HostId(pub [u8; 16]);

impl fmt::Display for HostId {
    /// As a UUID, for example `2f0c6b1e-8d4a-4c53-9a77-000000000001`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, byte) in self.0.iter().enumerate() {
            let dash = if matches!(index, 4 | 6 | 8 | 10) {
                "-"
            } else {
                ""
            };
            write!(f, "{dash}{byte:02x}")?;
        }
        Ok(())
    }
}
