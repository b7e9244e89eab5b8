use super::*;
use crate::time::Duration;

mod names;

fn read(text: &str) -> Result<CongestionSettings, String> {
    text.parse()
        .map_err(|error: CongestionSettingsError| error.to_string())
}

fn dcqcn(text: &str) -> DcqcnParameters {
    match read(text).map(|settings| settings.control) {
        Ok(CongestionControl::Dcqcn(parameters)) => parameters,
        other => panic!("{text}: {other:?}"),
    }
}

fn delay(text: &str) -> DelayParameters {
    match read(text).map(|settings| settings.control) {
        Ok(CongestionControl::Delay(parameters)) => parameters,
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn algorithms_and_sets_have_names() {
    assert_eq!(read("dcqcn"), Ok(CongestionSettings::default()));
    assert_eq!(dcqcn("DCQCN, paper"), DcqcnParameters::PAPER);
    assert_eq!(dcqcn("dcqcn,connectx"), DcqcnParameters::CONNECT_X);
    assert_eq!(delay("delay"), DelayParameters::DEFAULT);
    let none = read("none").map(|settings| settings.control);
    assert_eq!(none, Ok(CongestionControl::None));
}

/// As in a file.
#[test]
fn lines_are_as_good_as_commas() {
    let text = "# for the 25G machines\nalgorithm = dcqcn\nparameters = connectx\n\n\
                rpg_max_rate = 25000 # Mbit/s\nrpg_min_rate=5\n";
    let expected = DcqcnParameters {
        rpg_max_rate: 25_000,
        rpg_min_rate: 5,
        ..DcqcnParameters::CONNECT_X
    };
    assert_eq!(dcqcn(text), expected);
}

#[test]
fn a_set_fits_a_link() {
    let slower = read("dcqcn,link=50").expect("well-formed");
    let ms = |milliseconds| Duration::from_millis(milliseconds);
    let expected = DcqcnParameters {
        dce_tcp_rtt: ms(44),
        rpg_time_reset: ms(44),
        // 0.05 Mbit/s would be in proportion.
        rpg_ai_rate: 1,
        rpg_hai_rate: 1,
        rpg_min_rate: 1,
        rpg_max_rate: 50,
        start_rate: 50,
        ..DcqcnParameters::PAPER
    };
    assert_eq!(slower.control, CongestionControl::Dcqcn(expected));
    assert_eq!(slower.notification.min_time_between_cnps, ms(40));

    let faster = dcqcn("dcqcn, paper, LINK = 400000, rpg_min_rate=7");
    assert_eq!(faster.rpg_time_reset, Duration::from_nanos(5_500));
    assert_eq!((faster.rpg_ai_rate, faster.rpg_min_rate), (400, 7));

    let expected = DcqcnParameters {
        rpg_max_rate: 25_000,
        start_rate: 25_000,
        ..DcqcnParameters::CONNECT_X
    };
    let text = "algorithm = dcqcn\nparameters = connectx\nlink = 25000 # Mbit/s";
    assert_eq!(dcqcn(text), expected);
    assert_eq!(
        read(text).map(|settings| settings.notification),
        Ok(NotificationPoint::default())
    );

    // The paper's own link.
    let same = DcqcnParameters::paper_for_link(40_000);
    let start_rate = DcqcnParameters::PAPER.start_rate;
    assert_eq!(
        DcqcnParameters { start_rate, ..same },
        DcqcnParameters::PAPER
    );
    assert_eq!(
        NotificationPoint::for_link(40_000),
        NotificationPoint::default()
    );
    // Whatever the rate, no timer stands still.
    for rate in [0, 1, u32::MAX] {
        let extreme = DcqcnParameters::paper_for_link(rate);
        assert!(extreme.rpg_time_reset >= Duration::from_micros(1), "{rate}");
        assert!(extreme.rpg_ai_rate > 0, "{rate}");
    }
}

#[test]
fn what_is_written_is_read_again() {
    for (text, written) in [
        ("dcqcn,paper", "dcqcn"),
        ("delay", "delay"),
        (
            "dcqcn,connectx,link=100",
            "dcqcn,connectx,rpg_max_rate=100,start_rate=100",
        ),
        ("none,cnp_dscp=46", "none,cnp_dscp=46"),
        ("dcqcn,connectx", "dcqcn,connectx"),
        (
            "dcqcn,g=1/64,T=300",
            "dcqcn,dce_tcp_g=1008,rpg_time_reset=300us",
        ),
        (
            "dcqcn,connectx,rp_ai_rate=7",
            "dcqcn,connectx,rpg_ai_rate=7",
        ),
        (
            "delay,ai=0.5,base_target=25",
            "delay,base_target=25us,additive_increase=0.5",
        ),
    ] {
        let settings = read(text).expect("well-formed");
        assert_eq!(settings.to_string(), written);
        assert_eq!(read(written), Ok(settings));
    }
}

#[test]
fn what_is_wrong_is_named_with_what_would_be_right() {
    for (text, given, valid) in [
        ("", "\"\"", "dcqcn, delay or none"),
        ("cubic", "\"cubic\"", "dcqcn, delay or none"),
        ("rpg_ai_rate=5", "\"rpg_ai_rate=5\"", "dcqcn, delay or none"),
        (
            "dcqcn,rpg_ai=5",
            "\"rpg_ai=5\"",
            "rpg_ai_rate, rpg_hai_rate",
        ),
        (
            "dcqcn,rpg_gd=11,connectx",
            "\"connectx\"",
            "paper or connectx, comes first",
        ),
        (
            "dcqcn,link=0",
            "\"link=0\"",
            "a rate in Mbit/s, 1 to 10000000",
        ),
        ("dcqcn,link=25G", "\"link=25G\"", "a rate in Mbit/s"),
        (
            "dcqcn,rpg_gd=11,link=100",
            "\"link=100\"",
            "comes first, and link=RATE after it",
        ),
        (
            "dcqcn,link=100,connectx",
            "\"connectx\"",
            "comes first, and link=RATE after it",
        ),
        ("delay,link=100", "\"link=100\"", "with delay one of"),
        (
            "delay,rpg_gd=11",
            "\"rpg_gd=11\"",
            "with delay one of base_target",
        ),
        (
            "none,rpg_gd=11",
            "\"rpg_gd=11\"",
            "with none one of cnp_dscp",
        ),
        (
            "dcqcn,rpg_gd=9",
            "\"rpg_gd=9\"",
            "10, for all of alpha, or 11",
        ),
        (
            "dcqcn,rpg_min_rate=0",
            "\"rpg_min_rate=0\"",
            "Mbit/s, 1 to 10000000",
        ),
        (
            "dcqcn,rpg_ai_rate=-1",
            "\"rpg_ai_rate=-1\"",
            "Mbit/s, 0 to 10000000",
        ),
        (
            "dcqcn,rpg_time_reset=0",
            "\"rpg_time_reset=0\"",
            "a time from 1us to 3600s",
        ),
        ("dcqcn,T=soon", "\"T=soon\"", "a time from 1us"),
        ("dcqcn,T=inf", "\"T=inf\"", "a time from 1us"),
        ("dcqcn,dce_tcp_g=1025", "\"dce_tcp_g=1025\"", "0 to 1024"),
        ("dcqcn,g=2", "\"g=2\"", "such as 1/256"),
        ("dcqcn,g=0/0", "\"g=0/0\"", "such as 1/256"),
        (
            "dcqcn,clamp_tgt_rate=yes",
            "\"clamp_tgt_rate=yes\"",
            "0 or 1",
        ),
        ("dcqcn,cnp_dscp=64", "\"cnp_dscp=64\"", "a DSCP, 0 to 63"),
        (
            "dcqcn,rpg_min_dec_fac=50%",
            "\"rpg_min_dec_fac=50%\"",
            "0 to 100, without a sign",
        ),
        ("delay,beta=nan", "\"beta=nan\"", "a number from 0 to 1"),
        (
            "dcqcn,T=1,rpg_time_reset=2",
            "\"rpg_time_reset=2\"",
            "left out: \"T=1\" already sets",
        ),
        (
            "dcqcn,dce_tcp_g=1019,g=1/256",
            "\"g=1/256\"",
            "left out: \"dce_tcp_g=1019\" already sets",
        ),
        (
            "dcqcn,g=1/256,dce_tcp_g=1019",
            "\"dce_tcp_g=1019\"",
            "left out: \"g=1/256\" already sets",
        ),
    ] {
        let error = read(text).expect_err(text);
        assert!(error.starts_with(&format!("{given} should be ")), "{error}");
        assert!(error.contains(valid), "{error}");
    }
}
