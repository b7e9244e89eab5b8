//! Versions of glibc that programs and libraries need.

use crate::contents::{Body, Content};

/// The version before which no program of Rust runs.
const OLDEST: (u32, u32) = (2, 17);

/// The newest version among the symbols that the contents need.
pub(crate) fn newest(contents: &[Content]) -> (u32, u32) {
    let needed = contents.iter().map(needed);
    needed.fold(OLDEST, |newest, needed| newest.max(needed))
}

/// Checks that nothing needs a newer version than `limit`. The error names the file.
pub(crate) fn check(contents: &[Content], limit: (u32, u32)) -> Result<(), String> {
    match contents.iter().find(|content| needed(content) > limit) {
        Some(content) => {
            let (major, minor) = needed(content);
            Err(format!(
                "{} needs glibc {major}.{minor}, and {}.{} is the limit: `objdump -T` shows the symbols",
                content.path, limit.0, limit.1
            ))
        }
        None => Ok(()),
    }
}

/// The newest version among the symbols that a file needs, if it is a program or a library.
fn needed(Content { body, .. }: &Content) -> (u32, u32) {
    const NAME: &[u8] = b"GLIBC_";
    let (Body::File(bytes) | Body::Program(bytes)) = body else {
        return OLDEST;
    };
    if !bytes.starts_with(b"\x7fELF") {
        return OLDEST;
    }
    let texts = memchr::memmem::find_iter(bytes, NAME).filter_map(|at| {
        let rest = &bytes[at + NAME.len()..];
        let end = rest.iter().take(16).position(|byte| *byte == 0)?;
        str::from_utf8(&rest[..end]).ok()
    });
    let versions = texts.filter_map(version);
    versions.fold(OLDEST, |newest, version| newest.max(version))
}

/// Parses two numbers with a dot between them. More may follow.
pub(crate) fn version(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.split('.').map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_needs_too_new_a_libc_is_named() {
        let content = |path: &str, text: &str| Content {
            path: path.to_owned(),
            body: Body::File(text.into()),
        };
        let old = content("old", "\x7fELF GLIBC_2.4\0 GLIBC_2.28\0 GLIBC_PRIVATE\0");
        let new = content("new", "\x7fELF GLIBC_2.2.5\0 GLIBC_2.29\0");
        let text = content("text", "GLIBC_2.99\0");
        assert_eq!(newest(&[]), (2, 17));
        assert_eq!(newest(&[old.clone(), text.clone()]), (2, 28));
        assert_eq!(check(&[old.clone(), text], (2, 28)), Ok(()));
        let error = check(&[old, new], (2, 28)).expect_err("refused");
        assert!(
            error.starts_with("new needs glibc 2.29, and 2.28"),
            "{error}"
        );
    }
}
