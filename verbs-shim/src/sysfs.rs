//! Files of sysfs, which programs read through the library.

use crate::prelude::*;
use std::ffi::{CStr, c_char};
use std::io::Read;
use std::path::Path;

pub(crate) extern "C" fn get_sysfs_path() -> Text {
    c"/sys".as_ptr()
}

fn text<'a>(text: In<c_char>) -> Result<&'a str, Errno> {
    text.get()?;
    // SAFETY: it is not NULL, and the caller passes a NUL-terminated string.
    let text = unsafe { CStr::from_ptr(text.as_ptr()) };
    text.to_str().map_err(|_| Errno::EINVAL)
}

/// `ibv_read_sysfs_file`: returns the number of bytes read, without the newline at the end, or -1.
pub(crate) extern "C" fn read_sysfs_file(
    folder: In<c_char>,
    file: In<c_char>,
    to: Out<c_char>,
    size: usize,
) -> c_int {
    guard::value("ibv_read_sysfs_file", -1, || {
        let path = Path::new(text(folder)?).join(text(file)?);
        let mut found = Vec::new();
        let file = std::fs::File::open(path).or_errno()?;
        file.take(size as u64).read_to_end(&mut found).or_errno()?;
        if found.last() == Some(&b'\n') {
            found.pop();
        }
        for (index, byte) in found.iter().enumerate() {
            to.put_at(index, c_char::from_ne_bytes([*byte]))?;
        }
        if found.len() < size {
            to.put_at(found.len(), 0)?;
        }
        Ok(int(found.len()))
    })
}
