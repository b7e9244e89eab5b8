use super::*;

#[test]
fn addresses_make_the_round_trip() {
    for (text, whole) in [
        ("nvme://10.0.0.2", "nvme://10.0.0.2:4420/"),
        (
            "nvme://10.0.0.2:1234/nqn.a:b",
            "nvme://10.0.0.2:1234/nqn.a:b",
        ),
        (
            "nvme://[fd00::2]/nqn.a:b/c",
            "nvme://[fd00::2]:4420/nqn.a:b/c",
        ),
        ("nvme://fd00::2/", "nvme://[fd00::2]:4420/"),
        ("nvme://[fd00::2]:1/nqn.a:b", "nvme://[fd00::2]:1/nqn.a:b"),
    ] {
        let address: Address = text.parse().expect(text);
        assert_eq!(address.to_string(), whole);
        assert_eq!(whole.parse(), Ok(address));
    }
}

#[test]
fn what_is_wrong_is_said() {
    let error = |text: &str| text.parse::<Address>().expect_err(text).to_string();
    assert!(error("10.0.0.2").contains("does not begin with nvme://"));
    assert!(error("nvme://10.0.0.2:99999/nqn.a").contains("\"10.0.0.2:99999\" is no IP address"));
    assert!(error("nvme://host/nqn.a").contains("\"host\" is no IP address"));
    assert!(error("nvme://10.0.0.2/disk1").contains("\"disk1\" is no NVMe qualified name"));
}
