//! Checks memory against `/proc/self/maps`, where `madvise` can't populate it.

use nix::errno::Errno;
use roce_verbs::Access;

/// # Errors
/// `EFAULT` if some of the addresses are not mapped, or are mapped without the rights that a region
/// with this access needs.
pub(crate) fn check(from: usize, to: usize, access: Access) -> Result<(), Errno> {
    let maps = std::fs::read_to_string("/proc/self/maps").map_err(|_| Errno::EFAULT)?;
    if covers(&maps, from, to, access.contains(Access::LOCAL_WRITE)) {
        Ok(())
    } else {
        Err(Errno::EFAULT)
    }
}

/// Whether the mappings, in order of address, cover all of the range without a hole, and can be
/// read or written.
fn covers(maps: &str, from: usize, to: usize, writes: bool) -> bool {
    let mut next = from;
    for line in maps.lines() {
        let Some((begin, end, rights)) = parse(line) else {
            return false;
        };
        if next >= to {
            break;
        }
        if end <= next {
            continue;
        }
        let allowed = rights.starts_with('r') && (!writes || rights.get(1..2) == Some("w"));
        if begin > next || !allowed {
            return false;
        }
        next = end;
    }
    next >= to
}

/// Start, end and rights of a line such as `7f00-7f10 rw-p ...`.
fn parse(line: &str) -> Option<(usize, usize, &str)> {
    let mut words = line.split(' ');
    let (begin, end) = words.next()?.split_once('-')?;
    let number = |text| usize::from_str_radix(text, 16).ok();
    Some((number(begin)?, number(end)?, words.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_it_must_be_mapped_and_allowed() {
        let maps = "1000-3000 rw-p 0 a\n3000-4000 r--p 0 b\n5000-6000 ---p 0 c\n";
        assert!(covers(maps, 0x1000, 0x3000, true));
        assert!(covers(maps, 0x2000, 0x4000, false));
        assert!(!covers(maps, 0x2000, 0x4000, true));
        assert!(!covers(maps, 0x3000, 0x5000, false));
        assert!(!covers(maps, 0x5000, 0x6000, false));
        assert!(!covers(maps, 0x6000, 0x7000, false));
        let hole = "1000-2000 rw-p 0 a\n3000-4000 rw-p 0 b\n";
        assert!(!covers(hole, 0x1000, 0x4000, false));
    }
}
