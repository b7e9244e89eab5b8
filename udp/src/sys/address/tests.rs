use super::*;

#[test]
fn addresses_survive_the_round_trip() {
    for text in ["127.0.0.1", "10.1.2.3", "::1", "fe80::1:2", "2001:db8::9"] {
        let ip: IpAddr = text.parse().expect("an address");
        let (raw, len) = RawAddress::new(ip, 4791, 3);
        assert_eq!(raw.get(len), Some((ip, 4791)));
        assert_eq!(raw.get(len - 1), None, "{text} cut short");
    }
}

#[test]
fn what_the_kernel_did_not_write_is_no_address() {
    assert_eq!(RawAddress::empty().get(0), None);
    assert_eq!(RawAddress::empty().get(RawAddress::SIZE), None);
}

#[test]
fn only_link_local_addresses_get_a_scope() {
    let scope = |text: &str| match socket_address(text.parse().expect("an address"), 1, 7) {
        SocketAddr::V6(address) => address.scope_id(),
        SocketAddr::V4(_) => 0,
    };
    assert_eq!(
        (scope("fe80::1"), scope("2001:db8::1"), scope("::1")),
        (7, 0, 0)
    );
}
