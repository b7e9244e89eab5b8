//! A packet's comments in a capture file: its opt_comment options.

use super::{Endian, take};

/// Options.
const OPTION_END: u16 = 0;
const OPTION_COMMENT: u16 = 1;

/// The maximum number of comments to read for one packet. Without it, a file of a few hundred bytes
/// could make the decoder allocate many times its size.
const MAX_COMMENTS: usize = 64;

/// The comments of a packet, in place in its block. A truncated option ends them: the packet before
/// them is complete.
#[derive(Clone, Copy, Debug)]
pub(in crate::decode) struct Comments<'a> {
    options: &'a [u8],
    endian: Endian,
}

impl<'a> Comments<'a> {
    /// No comments.
    pub(in crate::decode) const NONE: Self = Self {
        options: &[],
        endian: Endian::Little,
    };

    pub(super) fn new(options: &'a [u8], endian: Endian) -> Self {
        Self { options, endian }
    }

    /// The first comments, up to the limit.
    pub(in crate::decode) fn texts(self) -> Vec<String> {
        let texts = self.map(|text| String::from_utf8_lossy(text).into_owned());
        texts.take(MAX_COMMENTS).collect()
    }
}

impl<'a> Iterator for Comments<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        while self.options.len() >= 4 {
            let code = self.endian.u16(take(&mut self.options));
            let len = usize::from(self.endian.u16(take(&mut self.options)));
            let value = self.options.get(..len).filter(|_| code != OPTION_END)?;
            let padded = len.next_multiple_of(4).min(self.options.len());
            self.options = &self.options[padded..];
            if code == OPTION_COMMENT {
                return Some(value);
            }
        }
        None
    }
}
