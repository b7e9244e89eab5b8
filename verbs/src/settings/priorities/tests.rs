use super::*;
use crate::environment::parse_text_or_file;

fn settings(text: &str) -> PrioritySettings {
    text.parse().unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// DSCP 26, in a traffic class.
const AF31: u8 = 26 << 2;

#[test]
fn default_settings_keep_each_traffic_class() {
    let none = settings("");
    assert_eq!(none, PrioritySettings::default());
    for class in 0..=255 {
        assert_eq!(none.traffic_class(class & 15, class), class);
    }
    assert_eq!(none.priorities, None);
}

/// The field has four bits, and the upper half of its values is reserved.
// shows: A17.4.2-service-level
#[test]
fn reserved_service_levels_select_nothing() {
    let every = "sl2dscp=0:1,sl2dscp=1:2,sl2dscp=2:3,sl2dscp=3:4,sl2dscp=4:5,sl2dscp=5:6,\
                 sl2dscp=6:7,sl2dscp=7:8";
    let every = settings(every);
    for level in 0..8 {
        assert_eq!(every.traffic_class(level, 0), (level + 1) << 2);
    }
    for level in 8..16 {
        assert_eq!(every.traffic_class(level, 0), 0);
    }
    let reserved = "sl2dscp=8:46".parse::<PrioritySettings>();
    assert!(reserved.is_err());
}

/// A class that the program asks for comes first, then the service level's, then the default. A
/// forced class overrides all of these. ECN stays as it is.
#[test]
fn the_most_specific_traffic_class_applies() {
    let all = settings("default_roce_tos=106, sl2dscp=3:46\nsl2dscp = 4:0 # best effort");
    assert_eq!(all.traffic_class(0, 2), AF31 | 2);
    assert_eq!(all.traffic_class(0, 0), AF31);
    assert_eq!(all.traffic_class(3, 2), 46 << 2 | 2);
    assert_eq!(all.traffic_class(4, 2), 2);
    assert_eq!(all.traffic_class(3, 8 << 2 | 2), 8 << 2 | 2);
    assert_eq!(all.traffic_class(200, 1), AF31 | 1, "no such level");
    let forced = settings("traffic_class=104,sl2dscp=3:46");
    assert_eq!(forced.traffic_class(3, 8 << 2 | 2), AF31 | 2);
    assert_eq!(forced.traffic_class(0, 1), AF31 | 1);
}

#[test]
fn priorities_follow_from_dscps() {
    let default = settings("trust=dscp").priorities.expect("trusted");
    assert_eq!(default, PriorityMap::default());
    assert_eq!((default.of(AF31), default.of(48 << 2)), (3, 6));
    let map = settings("dscp-prio=26:5,DSCP2PRIO=0:1").priorities;
    let map = map.expect("implied");
    assert_eq!((map.of(AF31 | 3), map.of(2), map.of(48 << 2)), (5, 1, 6));
    assert_eq!(map.changed().collect::<Vec<_>>(), [(0, 1), (26, 5)]);
}

#[test]
fn an_error_lists_the_valid_values() {
    for (text, given, expected) in [
        ("dscp", "dscp", "NAME=VALUE"),
        ("pfc=3", "pfc=3", "default_roce_tos, traffic_class"),
        ("trust=dscp,trust=pcp", "trust=pcp", "sl2dscp"),
        ("traffic_class=256", "traffic_class=256", "0 to 255"),
        ("default_roce_tos=AF31", "default_roce_tos=AF31", "0 to 255"),
        (
            "cma_roce_tos=1,default_roce_tos=1",
            "default_roce_tos=1",
            "once",
        ),
        ("sl2dscp=8:1", "sl2dscp=8:1", "0 to 7"),
        ("sl2dscp=3:64", "sl2dscp=3:64", "0 to 63"),
        ("sl2dscp=3:1,sl2dscp=3:2", "sl2dscp=3:2", "once"),
        ("dscp-prio=26:8", "dscp-prio=26:8", "0 to 7"),
        ("dscp-prio=26", "dscp-prio=26", "26:3"),
    ] {
        let error = text.parse::<PrioritySettings>().expect_err("wrong");
        assert_eq!(error.given, given);
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn settings_can_come_from_a_file() {
    let name = format!("roce-qos-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let at = format!("@{}", path.display());
    let missing = parse_text_or_file::<PrioritySettings>(&at).expect_err("no such file");
    assert!(missing.contains("No such file"), "{missing}");
    std::fs::write(&path, "trust=dscp\ntraffic_class=104\n").expect("written");
    assert_eq!(
        parse_text_or_file(&at),
        Ok(settings("traffic_class=104,trust=dscp"))
    );
    std::fs::write(&path, "trust=me").expect("written");
    let error = parse_text_or_file::<PrioritySettings>(&at).expect_err("malformed");
    assert!(error.starts_with("in "), "{error}");
    std::fs::remove_file(&path).expect("removed");
}
