use super::*;

fn split(path: &str) -> Option<(String, &str)> {
    let (parts, rest) = made_up(path.as_bytes())?;
    let parts = parts.map(|part| str::from_utf8(part).expect("text").to_owned());
    Some((parts.join("/"), str::from_utf8(rest).expect("text")))
}

#[test]
fn made_up_paths_are_known_in_every_form() {
    for (path, folder, rest) in [
        ("/sys/class/infiniband", "sys/class/infiniband", ""),
        ("//sys/./class///infiniband/", "sys/class/infiniband", "/"),
        (
            "/sys/class/infiniband_verbs/uverbs0/dev",
            "sys/class/infiniband_verbs",
            "/uverbs0/dev",
        ),
        ("/dev/infiniband/./uverbs0", "dev/infiniband/", "/./uverbs0"),
    ] {
        assert_eq!(split(path), Some((folder.to_owned(), rest)), "{path}");
    }
}

#[test]
fn other_paths_are_left_alone() {
    for path in [
        "",
        "/",
        "/sys",
        "/sys/class",
        "/sys/class/net/lo",
        "/sys/class/infiniband_x/y",
        "/sys/class/infinibandx",
        "/sys/class/../class/infiniband",
        "/sysx/class/infiniband",
        "/sys/classx/infiniband",
        "/dev/null",
        "/dev/infinibandx",
        "/home/sys/class/infiniband",
        "/dev",
    ] {
        assert_eq!(split(path), None, "{path}");
    }
}

#[test]
fn most_paths_are_not_looked_at_closely() {
    for path in [
        c"/sys/class",
        c"//./dev/x",
        c"class",
        c"./infiniband",
        c"infiniband_verbs/x",
    ] {
        assert!(may_be_made_up(path.as_ptr()), "{path:?}");
    }
    for path in [c"", c"/", c"/usr/lib", c".", c"..", c"../sys", c"s", c"/de"] {
        assert!(!may_be_made_up(path.as_ptr()), "{path:?}");
    }
    assert!(!may_be_made_up(std::ptr::null()));
}

#[test]
fn a_path_that_is_too_long_is_none() {
    let mut path = Path::new();
    assert_eq!(path.push(&[b'a'; PATH_BYTES]), None);
    assert_eq!(path.push(&[b'a'; PATH_BYTES - 1]), Some(()));
    assert_eq!(path.push(b"a"), None);
    assert_eq!(path.as_bytes().len(), PATH_BYTES - 1);
}

#[test]
fn a_descriptor_has_its_link() {
    for (number, path) in [(0, "/proc/self/fd/0"), (1024, "/proc/self/fd/1024")] {
        let link = Link::of(number).expect("a number");
        assert_eq!(&link.0[..path.len()], path.as_bytes());
        assert_eq!(link.0[path.len()], 0);
    }
    assert!(Link::of(-1).is_none());
    let most = Link::of(c_int::MAX).expect("a number");
    assert!(most.0.starts_with(b"/proc/self/fd/2147483647\0"));
}
