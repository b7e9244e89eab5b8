//! Requests are posted in every form, to every target, and all of them behave alike.

use crate::sim::{A, B, Fate, Mem, Pair, Setup, pattern};
use crate::xrc::Ends;
use roce_stack::{PostError, QpKind, SendFlags, SendOp, SendRequest, Sge, Target};
use roce_wire::{Opcode, PathMtu};

/// How a request refers to its bytes.
#[derive(Clone, Copy, Debug)]
enum Form {
    /// In one element.
    Element,
    /// In several elements.
    Elements,
    /// In several elements, and copied from there when posted.
    Copied,
    /// In the request.
    Inline,
}

const FORMS: [Form; 4] = [Form::Element, Form::Elements, Form::Copied, Form::Inline];

const LEN: usize = 60;

/// One way to send: both ends, the target of the requests, and memory of the receiver.
struct Way {
    pair: Pair,
    target: Target,
    to: Mem,
}

impl Way {
    fn new(kind: QpKind) -> Self {
        let setup = Setup {
            kind,
            ..Setup::default()
        };
        if kind.is_xrc() {
            let mut ends = Ends::new(Setup::default());
            let to = ends.target_mem(1, 4 * LEN);
            let target = ends.srqs[1].number.into();
            let pair = ends.pair;
            return Self { pair, target, to };
        }
        let mut pair = Pair::new(setup);
        let to = pair.mem(B, 4 * LEN);
        Self {
            pair,
            target: Target::Peer,
            to,
        }
    }

    /// Posts WRITEs in these forms, one after the other, then overwrites the memory of those whose
    /// bytes have been copied.
    fn write(&mut self, forms: &[Form]) {
        let from = self.pair.mem(A, 4 * LEN);
        for (n, form) in forms.iter().enumerate() {
            let (at, text) = (n * LEN, pattern(n as u64, LEN));
            from.write(at, &text);
            let parts = [from.sge(at, 7), from.sge(at + 7, LEN - 7)];
            let write = SendRequest::write((), self.to.remote(at))
                .id(n as u64)
                .to(self.target);
            let write = match form {
                Form::Element => with(write, from.sge(at, LEN)),
                Form::Elements | Form::Copied => SendRequest {
                    payload: (&parts).into(),
                    ..write
                },
                Form::Inline => write.inline(&text),
            };
            let copied = matches!(form, Form::Copied | Form::Inline);
            let flags = match form {
                Form::Copied => SendFlags::SIGNALED | SendFlags::INLINE,
                _ => SendFlags::SIGNALED,
            };
            self.pair.post_request(A, &write.with_flags(flags));
            if copied {
                from.write(at, &[0xee; LEN]);
            }
        }
    }
}

fn with(request: SendRequest<'_>, element: Sge) -> SendRequest<'_> {
    let payload = element.into();
    SendRequest { payload, ..request }
}

/// The opcodes of the packets, converted to another kind of QP.
fn opcodes(pair: &Pair) -> Vec<u8> {
    let log = &pair.links[A].log;
    log.iter().map(|sent| sent.opcode().byte() & 31).collect()
}

/// Each form alone, and all in one batch, to each kind of target: the same packets except the
/// service, the same bytes, the same completions, also when the first packet is lost.
// shows: 10.7.3-inline
// trap: request-changed
#[test]
fn every_form_is_sent_alike() {
    for kind in [QpKind::Rc, QpKind::Uc, QpKind::XrcInitiator] {
        let batches = FORMS.map(|form| vec![form]);
        for forms in batches.into_iter().chain([FORMS.to_vec()]) {
            let mut way = Way::new(kind);
            let losses = usize::from(kind != QpKind::Uc);
            if losses > 0 {
                way.pair.links[A].hit(&[0], Fate::Drop, |_| true);
            }
            way.write(&forms);
            way.pair.run();
            let ids: Vec<u64> = (0..forms.len() as u64).collect();
            way.pair.assert_sent(A, &ids);
            for n in 0..forms.len() {
                let found = way.to.read(n * LEN, LEN);
                assert_eq!(found, pattern(n as u64, LEN), "{kind} {forms:?}");
            }
            let only = Opcode::RC_WRITE_ONLY.byte() & 31;
            let sent = opcodes(&way.pair);
            assert!(sent.len() >= forms.len() + losses, "{kind} {forms:?}");
            assert!(sent.iter().all(|opcode| *opcode == only), "{sent:?}");
        }
    }
}

/// The middle of a long message to an SRQ is sent like that of any other: each packet names the
/// SRQ, in one piece or in several.
// shows: A14-xrceth, 9.7.3-segments
#[test]
fn the_middle_of_a_message_names_its_srq() {
    const LONG: usize = 20 * 256 - 30;
    let sent = [&[LONG][..], &[1001, LONG - 1001]].map(|lens| {
        let mut ends = Ends::new(Setup {
            mtu: PathMtu::Mtu256,
            ..Setup::default()
        });
        let from = ends.pair.mem(A, LONG);
        let to = ends.target_mem(0, LONG);
        from.write(0, &pattern(3, LONG));
        let number = ends.srqs[0].number;
        let mut at = 0;
        let mut elements = Vec::new();
        for len in lens {
            elements.push(from.sge(at, *len));
            at += len;
        }
        ends.post(1, SendOp::Write(to.remote(0)), &elements, number);
        ends.pair.run();
        ends.pair.assert_sent(A, &[1]);
        assert_eq!(to.read(0, LONG), pattern(3, LONG));
        let log = &ends.pair.links[A].log;
        let packets = log.iter().map(|sent| {
            let named = sent.ext.xrceth.map(|header| header.srqn.get());
            assert_eq!(named, Some(number.get()));
            (sent.opcode(), sent.bth.psn, sent.bth.ack_req)
        });
        packets.collect::<Vec<_>>()
    });
    assert_eq!(sent[0].len(), 20);
    assert_eq!(sent[0], sent[1]);
}

/// An operation without local memory accepts no elements, with any service.
// shows: 10.7.3-elements
#[test]
fn local_requests_take_no_elements() {
    for kind in [QpKind::Rc, QpKind::Uc, QpKind::XrcInitiator] {
        let mut way = Way::new(kind);
        let mem = way.pair.mem(A, 8);
        let request = SendRequest::new(1, SendOp::LocalInv(mem.key), mem.sge(0, 8));
        let (now, node) = (way.pair.now, &mut way.pair.nodes[A]);
        let posted = node.nic.post_send(now, node.qpn, &request.to(way.target));
        let refused = PostError::TooManySges { given: 1, max: 0 };
        assert_eq!(posted, Err(refused), "{kind}");
    }
}
