use serde_json::json;

use super::{differing, our_fields, tshark};

/// tshark's line about a SEND, and the same packet from `roce decode`.
fn pair() -> (super::Fields, super::Fields) {
    let line = "7\t10.1.2.3\t\t10.4.5.6\t\t69\t4791\t26\t\t1\t\t62\t\t0x1234\t\t4\t1\t0\t3\t0\t65535\t80\t\
                0x123401\t1\t16776961\t\t\t\t\t\t\t\t\t\t\t\t\t0xcd57e306\t8";
    let mut theirs = tshark::parse(line);
    assert_eq!(theirs.remove("number").as_deref(), Some("7"));
    let ours = json!({
        "src": "10.1.2.3", "dst": "10.4.5.6", "src_port": 69, "dst_port": 4791,
        "dscp": 26, "ecn": 1, "ttl": 62, "ip_id": 0x1234, "opcode": 4,
        "solicited": true, "mig_req": false, "pad": 3, "tver": 0, "pkey": 65535,
        "fecn": true, "becn": false, "dest_qpn": 0x123401, "ack_req": true,
        "psn": 16_776_961, "payload_len": 5, "icrc": {"stored": "0x06e357cd"},
    });
    (our_fields(&ours), theirs)
}

#[test]
fn equal_fields_agree() {
    let (ours, theirs) = pair();
    assert_eq!(differing(7, &ours, &theirs), [] as [String; 0]);
    assert_eq!(ours, theirs);
}

#[test]
fn every_differing_or_missing_field_is_reported() {
    let (ours, theirs) = pair();
    for name in ours.keys() {
        let mut changed = ours.clone();
        changed.insert(name, "something".into());
        let told = differing(7, &changed, &theirs);
        assert_eq!(told.len(), 1, "{name}: {told:?}");
        assert!(told[0].contains(&format!("packet 7: {name}: roce says something, tshark")));
        let mut lacking = theirs.clone();
        lacking.remove(name);
        assert_eq!(differing(7, &ours, &lacking).len(), 1, "{name}");
    }
}
