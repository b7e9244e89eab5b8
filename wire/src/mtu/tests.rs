use super::*;

#[test]
fn bytes_and_codes_are_those_of_verbs() {
    let expected = [(256, 1), (512, 2), (1024, 3), (2048, 4), (4096, 5)];
    for (mtu, (bytes, code)) in PathMtu::ALL.into_iter().zip(expected) {
        assert_eq!(mtu.bytes(), bytes);
        assert_eq!(mtu.code(), code);
        assert_eq!(PathMtu::from_bytes(bytes), Some(mtu));
        assert_eq!(PathMtu::from_code(code), Some(mtu));
    }
    assert!(PathMtu::ALL.is_sorted());
}

#[test]
fn others_are_refused() {
    for bytes in (0..10_000).filter(|bytes| ![256, 512, 1024, 2048, 4096].contains(bytes)) {
        assert_eq!(PathMtu::from_bytes(bytes), None, "{bytes}");
    }
    for code in (0..=255).filter(|code| !(1..=5).contains(code)) {
        assert_eq!(PathMtu::from_code(code), None, "{code}");
    }
}

#[test]
fn the_largest_that_fits() {
    assert_eq!(PathMtu::largest_fitting(255), None);
    for room in 256..10_000 {
        let expected = PathMtu::ALL.into_iter().rfind(|mtu| mtu.bytes() <= room);
        assert_eq!(PathMtu::largest_fitting(room), expected, "{room}");
    }
    assert_eq!(PathMtu::largest_fitting(usize::MAX), Some(PathMtu::Mtu4096));
}
