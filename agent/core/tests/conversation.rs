//! The conversation with a hub that is played by hand: what is accepted, what is refused, what is said again.

#![expect(clippy::unwrap_used, reason = "a test may stop where it stands")]

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use agent_core::action::{Action, Outcome};
use agent_core::agent::Agent;
use agent_core::holdings::{Content, Holdings};
use agent_core::intake::{Held, Intake};
use agent_core::live::Live;
use agent_core::observation::Observation;
use agent_core::record::{ObjectRecord, Origin};
use agent_core::session::{Effect, Enrolled, Identity, Session};
use ring::rand::SystemRandom;
use shared::bundle::{Descriptor, Encoding, encode};
use shared::ids::{
    BootId, ClusterName, Digest, FleetId, Incarnation, KeyNumber, ObjectKey, ReportSeq, Sequence,
    Session as SessionNumber,
};
use shared::keys::{HubKeys, KeyStatement, Receipt, RootPin, SigningKey};
use shared::limits::{BEAT_ANSWER_MS, BEAT_EVERY_MS, CHUNK_BYTES_MAX};
use shared::owned::Mark;
use shared::reason::Reason;
use shared::seal::{Channel, HubExchange};
use shared::set::{ConflictResolution, DeleteMode, Delta, Entry, Head, Set, SignedHead};
use shared::time::{Millis, UnixSeconds};
use shared::wire::{
    BeatAck, Chunk, Down, InlineContent, InlineEncoding, JoinRefused, Kind, Offer, ReportAck, Up, Welcome,
    What, X1, X3, decode_up, encode_down, encode_set, open_envelope,
};

#[derive(Default)]
struct Kept(RefCell<BTreeMap<Digest, Content>>);

impl Holdings for Kept {
    fn has(&self, digest: &Digest) -> bool {
        self.0.borrow().contains_key(digest)
    }

    fn content(&self, digest: &Digest) -> Option<Content> {
        self.0.borrow().get(digest).cloned()
    }
}

fn cluster() -> ClusterName {
    ClusterName::new("shop").unwrap()
}

fn hub_keys(seed: u8, number: u32) -> HubKeys {
    let root = SigningKey::from_seed(&[seed; 32]).unwrap();
    let signer = SigningKey::from_seed(&[seed + 100 + u8::try_from(number).unwrap(); 32]).unwrap();
    let statement = KeyStatement::issue(&root, FleetId([seed; 16]), KeyNumber(number), signer.public());
    HubKeys::new(root.public(), statement, signer).unwrap()
}

/// Hub and agent with nothing in between.
struct Table {
    keys: HubKeys,
    agent: Agent,
    kept: Kept,
    random: SystemRandom,
    exchange: Option<HubExchange>,
    channel: Option<Channel>,
    /// What the agent said since the last look.
    heard: Vec<Up>,
    committed: Vec<Sequence>,
    effects: Vec<String>,
    exchanges: usize,
    mute: bool,
    now: Millis,
}

impl Table {
    fn new() -> Self {
        Self::with(&[], vec![])
    }

    /// An agent that starts with a held set of these contents and with these records.
    fn with(contents: &[(&str, &[u8])], records: Vec<ObjectRecord>) -> Self {
        let keys = hub_keys(1, 1);
        let key = SigningKey::from_seed(&[9; 32]).unwrap();
        let receipt = Receipt {
            fleet: keys.fleet(),
            cluster: cluster(),
            incarnation: Incarnation([3; 16]),
            identity: key.public(),
            kube_system_uid: "u".into(),
            labels: BTreeMap::new(),
            provider: String::new(),
            region: String::new(),
            zones: vec![],
        }
        .sign(&keys);
        let identity = Identity {
            cluster: cluster(),
            pin: RootPin::of(&keys.root),
            key: Arc::new(key),
            boot: BootId([5; 16]),
            agent_version: "t".into(),
        };
        let held = (!contents.is_empty()).then(|| {
            let set = set(contents);
            Held {
                head: head(&keys, 1, &set),
                set: Arc::new(set),
            }
        });
        let intake = Intake::new(Session::owner(&receipt), held, BTreeMap::new());
        let enrolled = Enrolled {
            receipt,
            ring: keys.ring(),
            proposed: SessionNumber(4),
            confirmed: UnixSeconds(0),
            intake,
        };
        let mut table = Self {
            agent: Agent::new(identity, enrolled, records, vec![], Millis(0)),
            keys,
            kept: Kept::default(),
            random: SystemRandom::new(),
            exchange: None,
            channel: None,
            heard: vec![],
            committed: vec![],
            effects: vec![],
            exchanges: 0,
            mute: false,
            now: Millis(0),
        };
        table.agent.handle_connected(&table.random, table.now);
        table.pump();
        table
    }

    fn open() -> Self {
        let mut table = Self::new();
        table.say(&Down::Welcome(Welcome {
            session: SessionNumber(6),
            confirmed_time_s: UnixSeconds(1_000),
            last_report: ReportSeq(0),
            behind: false,
        }));
        table.heard.clear();
        table
    }

    /// Carries effects out until there are none.
    fn pump(&mut self) {
        loop {
            let effects = self.agent.take_effects(self.now);
            if effects.is_empty() {
                return;
            }
            for effect in effects {
                match effect {
                    Effect::Send(payload) => self.hear(&payload),
                    Effect::Keep(contents) => self.keep(contents),
                    Effect::Commit { held, contents } => {
                        self.keep(contents);
                        for entry in held.set.entries() {
                            assert!(self.kept.has(&entry.digest), "committed without {}", entry.key);
                        }
                        self.committed.push(held.head.head.sequence);
                        self.agent.handle_committed(self.now);
                    }
                    other => self.effects.push(
                        format!("{other:?}")
                            .split(['(', ' ', '{'])
                            .next()
                            .unwrap()
                            .to_owned(),
                    ),
                }
            }
        }
    }

    fn keep(&mut self, contents: Vec<Content>) {
        self.kept
            .0
            .borrow_mut()
            .extend(contents.into_iter().map(|c| (c.digest(), c)));
    }

    fn hear(&mut self, payload: &[u8]) {
        match open_envelope(payload).unwrap().0 {
            Kind::X1 => {
                self.exchanges += 1;
                if self.mute {
                    return;
                }
                let x1 = X1::decode(payload).unwrap();
                let (exchange, x2) = HubExchange::answer(&self.random, cluster(), &x1, &self.keys).unwrap();
                self.exchange = Some(exchange);
                self.agent.handle_payload(&x2.encode(), &self.kept, self.now);
            }
            Kind::X3 => {
                let exchange = self.exchange.as_ref().unwrap();
                self.channel = Some(exchange.accept(&X3::decode(payload).unwrap()).unwrap().0);
            }
            _ => {
                let plain = self.channel.as_mut().unwrap().open(payload).unwrap();
                self.heard.push(decode_up(&plain).unwrap());
            }
        }
    }

    fn say(&mut self, down: &Down) {
        let payload = self.channel.as_mut().unwrap().seal(&encode_down(down)).unwrap();
        self.agent.handle_payload(&payload, &self.kept, self.now);
        self.pump();
    }

    fn wait(&mut self, ms: u64) {
        let end = self.now.plus(ms);
        // The shell asks after every event.
        self.agent.handle_tick(&self.random, 7, self.now);
        self.pump();
        while self.now < end
            && let Some(at) = self.agent.next_wake().filter(|at| *at <= end)
        {
            self.now = Millis(at.0.max(self.now.0 + 1));
            self.agent.handle_tick(&self.random, 7, self.now);
            self.pump();
        }
        self.now = self.now.max(end);
    }

    fn head(&self, sequence: u64, set: &Set) -> SignedHead {
        head(&self.keys, sequence, set)
    }

    fn offer(&self, sequence: u64, base: u64, from: &Set, to: &Set, contents: &[&[u8]]) -> Offer {
        let signed = self.head(sequence, to);
        let inline = contents
            .iter()
            .map(|bytes| {
                let at = to
                    .entries()
                    .iter()
                    .position(|e| e.digest == Digest::of(bytes))
                    .unwrap();
                let descriptor = Descriptor::sign(bytes, &self.keys).unwrap();
                InlineContent {
                    entry: u32::try_from(at).unwrap(),
                    key_number: descriptor.descriptor.key_number,
                    signature: descriptor.signature,
                    encoding: InlineEncoding::Raw,
                    bytes: bytes.to_vec(),
                }
            })
            .collect();
        Offer {
            sequence: signed.head.sequence,
            digest: signed.head.digest,
            key_number: signed.head.key_number,
            signature: signed.signature,
            base: Sequence(base),
            delta: Some(Delta::between(from, to)),
            inline,
        }
    }

    fn refusal(&mut self) -> Option<Reason> {
        self.heard.drain(..).find_map(|up| match up {
            Up::Refused(r) => r.reason.known(),
            _ => None,
        })
    }
}

fn head(keys: &HubKeys, sequence: u64, set: &Set) -> SignedHead {
    Head {
        fleet: keys.fleet(),
        cluster: cluster(),
        incarnation: Incarnation([3; 16]),
        sequence: Sequence(sequence),
        digest: set.digest(),
        key_number: KeyNumber(0),
    }
    .sign(keys)
}

fn set(contents: &[(&str, &[u8])]) -> Set {
    let entries = contents
        .iter()
        .map(|(name, bytes)| {
            Arc::new(Entry {
                key: ObjectKey::new("", "ConfigMap", "a", name),
                digest: Digest::of(bytes),
                length: u32::try_from(bytes.len()).unwrap(),
                work: (*name).into(),
                template_uid: "t".into(),
                template_generation: 1,
                conflict_resolution: ConflictResolution::Abort,
                suspended: false,
                delete_mode: DeleteMode::Delete,
                retain_replicas: false,
                dependencies: vec![],
                labels: BTreeMap::new(),
            })
        })
        .collect();
    Set::new(entries, vec![]).unwrap()
}

#[test]
fn hello_comes_first_and_says_what_is_held() {
    let table = Table::new();
    let [Up::Hello(hello)] = table.heard.as_slice() else {
        panic!("{:?}", table.heard)
    };
    assert_eq!(
        (hello.proposed_session, hello.held.clone()),
        (SessionNumber(4), None)
    );
    assert_eq!(hello.receipt.receipt.cluster, cluster());
}

#[test]
fn a_set_is_committed_before_it_is_acknowledged() {
    let mut table = Table::open();
    assert_eq!(table.effects, ["Confirmed", "Agreed"]);
    let one = set(&[("one", b"{}")]);
    let offer = table.offer(1, 0, &Set::default(), &one, &[b"{}"]);
    table.say(&Down::Offer(Box::new(offer.clone())));
    assert_eq!(table.committed, [Sequence(1)]);
    assert!(matches!(table.heard.as_slice(), [Up::Ack(ack)] if ack.digest == one.digest()));
    assert!(table.agent.engine().target(&one.entries()[0].key).is_some());
    // The acknowledgement was lost: the same offer is acknowledged again and not committed again.
    table.heard.clear();
    table.say(&Down::Offer(Box::new(offer)));
    assert!(matches!(table.heard.as_slice(), [Up::Ack(_)]));
    assert_eq!(table.committed.len(), 1);
}

#[test]
fn forged_older_reused_and_foreign_sets_are_refused_by_code() {
    let mut table = Table::open();
    let (one, two) = (set(&[("one", b"{}")]), set(&[("one", b"[]")]));
    let good = table.offer(5, 0, &Set::default(), &one, &[b"{}"]);
    table.say(&Down::Offer(Box::new(good.clone())));
    table.heard.clear();
    let older = table.offer(4, 0, &Set::default(), &one, &[b"{}"]);
    table.say(&Down::Offer(Box::new(older)));
    assert_eq!(table.refusal(), Some(Reason::StaleSequence));
    let reused = table.offer(5, 0, &Set::default(), &two, &[b"[]"]);
    table.say(&Down::Offer(Box::new(reused)));
    assert_eq!(table.refusal(), Some(Reason::SequenceReused));
    let mut forged = table.offer(6, 0, &Set::default(), &two, &[b"[]"]);
    forged.digest.0[0] ^= 1;
    table.say(&Down::Offer(Box::new(forged)));
    assert_eq!(table.refusal(), Some(Reason::BadSignature));
    // Signed for another cluster: the signature is over another head than this session stands for.
    let mut head = table.head(6, &two);
    head.head.cluster = ClusterName::new("other").unwrap();
    let head = head.head.sign(&table.keys);
    let mut foreign = table.offer(6, 0, &Set::default(), &two, &[b"[]"]);
    foreign.signature = head.signature;
    table.say(&Down::Offer(Box::new(foreign)));
    assert_eq!(table.refusal(), Some(Reason::BadSignature));
    assert_eq!(table.committed, [Sequence(5)]);
}

#[test]
fn a_delta_that_misses_its_digest_leads_to_the_whole_set() {
    let mut table = Table::open();
    let (one, two) = (set(&[("one", b"{}")]), set(&[("one", b"{}"), ("two", b"[]")]));
    let mut offer = table.offer(1, 0, &Set::default(), &two, &[]);
    offer.delta = Some(Delta::between(&Set::default(), &one));
    table.say(&Down::Offer(Box::new(offer)));
    let [Up::Want(want)] = table.heard.as_slice() else {
        panic!("{:?}", table.heard)
    };
    assert_eq!(want.what, What::Set(Sequence(1)));
    let bytes = encode_set(&two);
    let whole = chunk(
        What::Set(Sequence(1)),
        &bytes,
        0,
        bytes.len(),
        u32::try_from(bytes.len()).unwrap(),
        Encoding::Raw,
    );
    table.heard.clear();
    table.say(&Down::Chunk(whole));
    let wants = table
        .heard
        .iter()
        .filter(|u| matches!(u, Up::Want(w) if matches!(w.what, What::Content(_))))
        .count();
    assert_eq!(wants, 2, "then its contents: {:?}", table.heard);
    assert!(table.committed.is_empty());
}

#[test]
fn a_set_of_an_earlier_conversation_is_not_accepted_before_it_is_offered_again() {
    // Set 6 is on its way when the hub goes and comes back from a copy that does not know it.
    let (big, three) = (noise(4_000), set(&[("one", b"{}")]));
    let six = set(&[("big", &big)]);
    let welcome = |session| {
        Down::Welcome(Welcome {
            session: SessionNumber(session),
            confirmed_time_s: UnixSeconds(2_000),
            last_report: ReportSeq(0),
            behind: false,
        })
    };
    for offered_again in [true, false] {
        let mut table = Table::open();
        let offer = table.offer(6, 0, &Set::default(), &six, &[]);
        table.say(&Down::Offer(Box::new(offer.clone())));
        table.agent.handle_disconnected();
        table.agent.handle_connected(&table.random, table.now);
        table.pump();
        table.say(&welcome(7));
        let mut content = chunk(
            What::Content(Digest::of(&big)),
            &big,
            0,
            big.len(),
            u32::try_from(big.len()).unwrap(),
            Encoding::Raw,
        );
        let descriptor = Descriptor::sign(&big, &table.keys).unwrap();
        content.descriptor = Some((descriptor.descriptor.key_number, descriptor.signature));
        table.say(&Down::Chunk(content));
        assert!(table.committed.is_empty(), "whole, and not offered by this hub");
        table.heard.clear();
        if offered_again {
            table.say(&Down::Offer(Box::new(offer)));
            assert_eq!(
                table.committed,
                [Sequence(6)],
                "without asking for anything again"
            );
            assert!(
                matches!(table.heard.as_slice(), [Up::Ack(_)]),
                "{:?}",
                table.heard
            );
        } else {
            let older = table.offer(3, 0, &Set::default(), &three, &[b"{}"]);
            table.say(&Down::Offer(Box::new(older)));
            assert_eq!(table.committed, [Sequence(3)], "what the hub has now");
        }
    }
}

fn chunk(what: What, encoded: &[u8], from: usize, to: usize, length: u32, encoding: Encoding) -> Chunk {
    Chunk {
        what,
        offset: u32::try_from(from).unwrap(),
        total: u32::try_from(encoded.len()).unwrap(),
        sha256: Digest::of(encoded),
        encoding,
        length,
        descriptor: None,
        bytes: encoded[from..to].to_vec(),
    }
}

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut out = Vec::new();
    let mut block = Digest::of(b"noise");
    while out.len() < length {
        out.extend_from_slice(&block.0);
        block = Digest::of(&block.0);
    }
    out.truncate(length);
    out
}

#[test]
fn a_large_content_comes_in_chunks_and_goes_on_after_a_break() {
    let mut table = Table::open();
    let content = noise(CHUNK_BYTES_MAX * 2 + 5);
    let big = set(&[("big", &content)]);
    let offer = table.offer(1, 0, &Set::default(), &big, &[]);
    table.say(&Down::Offer(Box::new(offer.clone())));
    let encoded = encode(&content, None).unwrap();
    let what = What::Content(Digest::of(&content));
    let length = u32::try_from(content.len()).unwrap();
    let descriptor = Descriptor::sign(&content, &table.keys).unwrap();
    let part = |from: usize| {
        let to = (from + CHUNK_BYTES_MAX).min(encoded.bytes.len());
        let mut part = chunk(what, &encoded.bytes, from, to, length, encoded.encoding);
        part.descriptor = (from == 0).then_some((descriptor.descriptor.key_number, descriptor.signature));
        part
    };
    table.say(&Down::Chunk(part(0)));
    // The connection breaks and comes back: the rest is asked for, not the beginning.
    table.agent.handle_disconnected();
    table.heard.clear();
    table.agent.handle_connected(&table.random, table.now);
    table.pump();
    table.say(&Down::Welcome(Welcome {
        session: SessionNumber(6),
        confirmed_time_s: UnixSeconds(1_001),
        last_report: ReportSeq(0),
        behind: false,
    }));
    table.heard.clear();
    table.wait(3_000);
    let asked: Vec<u32> = table
        .heard
        .iter()
        .filter_map(|u| if let Up::Want(w) = u { Some(w.offset) } else { None })
        .collect();
    assert_eq!(asked, [u32::try_from(CHUNK_BYTES_MAX).unwrap()]);
    // A chunk of other bytes does not spoil it; the right ones complete it.
    let mut wrong = part(CHUNK_BYTES_MAX);
    wrong.offset = 7;
    table.say(&Down::Chunk(wrong));
    table.say(&Down::Chunk(part(CHUNK_BYTES_MAX)));
    assert!(table.committed.is_empty());
    table.say(&Down::Chunk(part(CHUNK_BYTES_MAX * 2)));
    table.say(&Down::Offer(Box::new(offer)));
    assert_eq!(table.committed, [Sequence(1)]);
}

#[test]
fn a_content_without_a_valid_descriptor_is_never_committed() {
    let mut table = Table::open();
    let one = set(&[("one", b"{}")]);
    let mut offer = table.offer(1, 0, &Set::default(), &one, &[b"{}"]);
    offer.inline[0].signature.0[0] ^= 1;
    table.say(&Down::Offer(Box::new(offer)));
    assert!(table.committed.is_empty());
    let what = What::Content(Digest::of(b"{}"));
    let mut forged = chunk(what, b"{}", 0, 2, 2, Encoding::Raw);
    forged.descriptor = Some((KeyNumber(1), shared::ids::Signature([0; 64])));
    table.say(&Down::Chunk(forged.clone()));
    table.say(&Down::Chunk(forged));
    assert_eq!(table.refusal(), Some(Reason::DigestMismatch));
    assert!(table.committed.is_empty());
}

#[test]
fn a_silent_hub_gets_a_new_exchange_and_then_a_new_connection() {
    let mut table = Table::open();
    table.mute = true;
    let before = table.exchanges;
    table.wait(BEAT_EVERY_MS + BEAT_ANSWER_MS * 2);
    assert!(table.exchanges > before, "no beat was answered");
    table.wait(600_000);
    assert!(table.effects.contains(&"Reconnect".to_owned()));
}

#[test]
fn an_answered_beat_starts_nothing() {
    let mut table = Table::open();
    let before = table.exchanges;
    table.wait(BEAT_EVERY_MS + 1_000);
    assert!(matches!(table.heard.as_slice(), [.., Up::Beat(_)]));
    table.say(&Down::BeatAck(BeatAck {
        confirmed_time_s: UnixSeconds(2_000),
        sequence: Sequence(0),
    }));
    table.wait(BEAT_ANSWER_MS * 2);
    assert_eq!(table.exchanges, before);
}

#[test]
fn a_report_is_repeated_until_it_is_acknowledged() {
    let mut table = Table::open();
    table.wait(30_000);
    let reports: Vec<ReportSeq> = table
        .heard
        .iter()
        .filter_map(|u| {
            if let Up::Report(r) = u {
                Some(r.report_seq)
            } else {
                None
            }
        })
        .collect();
    assert!(
        reports.len() > 1 && reports.iter().all(|seq| *seq == ReportSeq(1)),
        "{reports:?}"
    );
    table.say(&Down::ReportAck(ReportAck {
        report_seq: ReportSeq(1),
    }));
    table.heard.clear();
    table.wait(30_000);
    assert!(
        !table.heard.iter().any(|u| matches!(u, Up::Report(_))),
        "nothing changed, nothing is said"
    );
}

#[test]
fn a_hub_that_lost_reports_is_told_everything_again() {
    let mut table = Table::open();
    table.wait(1_000);
    table.say(&Down::ReportAck(ReportAck {
        report_seq: ReportSeq(1),
    }));
    table.agent.handle_disconnected();
    table.agent.handle_connected(&table.random, table.now);
    table.pump();
    table.heard.clear();
    table.say(&Down::Welcome(Welcome {
        session: SessionNumber(6),
        confirmed_time_s: UnixSeconds(1_000),
        last_report: ReportSeq(0),
        behind: false,
    }));
    table.wait(1_000);
    let told = table.heard.iter().find_map(|u| {
        if let Up::Report(r) = u {
            Some((r.report_seq, r.full))
        } else {
            None
        }
    });
    assert_eq!(told, Some((ReportSeq(2), true)));
}

#[test]
fn another_root_is_not_trusted() {
    let mut table = Table::new();
    table.heard.clear();
    table.keys = hub_keys(2, 1);
    table.agent.handle_disconnected();
    table.agent.handle_connected(&table.random, table.now);
    table.pump();
    assert!(table.heard.is_empty(), "nothing was said to it");
    assert!(
        table
            .agent
            .session()
            .last_error()
            .is_some_and(|e| e.contains("root"))
    );
}

#[test]
fn rotated_keys_are_learnt_and_older_ones_refused_from_then_on() {
    let mut table = Table::open();
    let old = table.keys;
    table.keys = hub_keys(1, 9);
    table.effects.clear();
    table.agent.handle_disconnected();
    table.agent.handle_connected(&table.random, table.now);
    table.pump();
    assert!(table.effects.contains(&"Learnt".to_owned()));
    table.say(&Down::Welcome(Welcome {
        session: SessionNumber(6),
        confirmed_time_s: UnixSeconds(1_000),
        last_report: ReportSeq(0),
        behind: false,
    }));
    let one = set(&[("one", b"{}")]);
    let new = std::mem::replace(&mut table.keys, old);
    let offer = table.offer(1, 0, &Set::default(), &one, &[b"{}"]);
    table.say(&Down::Offer(Box::new(offer)));
    assert_eq!(table.refusal(), Some(Reason::UnknownKey));
    table.keys = new;
    let offer = table.offer(1, 0, &Set::default(), &one, &[b"{}"]);
    table.say(&Down::Offer(Box::new(offer)));
    assert_eq!(table.committed, [Sequence(1)]);
}

#[test]
fn a_start_tells_only_what_it_has_read_again() {
    let wanted = set(&[("one", b"{}")]);
    let entry = wanted.entries()[0].clone();
    let record = ObjectRecord {
        key: entry.key.clone(),
        api_version: "v1".into(),
        uid: "u1".into(),
        nonce: None,
        origin: Origin::Created,
        content: entry.digest,
        template_uid: entry.template_uid.clone(),
        fields: None,
        completed: false,
    };
    let mut table = Table::with(&[("one", b"{}")], vec![record.clone()]);
    table.say(&Down::Welcome(Welcome {
        session: SessionNumber(6),
        confirmed_time_s: UnixSeconds(1_000),
        last_report: ReportSeq(0),
        behind: false,
    }));
    let told = |table: &mut Table| -> Vec<(usize, bool)> {
        let reports = table
            .heard
            .drain(..)
            .filter_map(|u| if let Up::Report(r) = u { Some(r) } else { None });
        reports.map(|r| (r.objects.len(), r.full)).collect()
    };
    table.wait(1_000);
    assert!(
        told(&mut table)
            .iter()
            .all(|(objects, full)| *objects == 0 && !full),
        "nothing was read yet"
    );
    table.say(&Down::ReportAck(ReportAck {
        report_seq: ReportSeq(1),
    }));
    let action = table.agent.poll_action(table.now, &mut || 1).expect("it is read");
    assert!(matches!(action, Action::Read { .. }), "{action:?}");
    let live = Live {
        uid: "u1".into(),
        resource_version: "1".into(),
        deleting: false,
        mark: Mark::Ours { nonce: None },
        fields: None,
        established: true,
        completed: false,
        other_manager: None,
    };
    let observation = Some(Observation {
        health: interpreter::Health::Healthy,
        status: None,
        trouble: None,
    });
    let read = Outcome::Read {
        live: Some(Box::new(live)),
        observation,
        record: Some(record),
    };
    table.agent.handle_outcome(&entry.key, read, table.now, 1);
    assert_eq!(table.agent.poll_action(table.now, &mut || 1), None);
    table.wait(1_000);
    assert_eq!(told(&mut table), [(1, true)]);
}

#[test]
fn an_agent_that_the_hub_does_not_know_any_more_says_why_and_comes_again() {
    let mut table = Table::new();
    table.say(&Down::JoinRefused(JoinRefused {
        reason: Reason::UnknownIdentity.into(),
        detail: "do this".into(),
    }));
    assert_eq!(
        table.agent.session().last_error(),
        Some("UnknownIdentity: do this")
    );
    assert_eq!(table.effects.last().map(String::as_str), Some("Reconnect"));
    table.heard.clear();
    table.agent.handle_connected(&table.random, table.now);
    table.pump();
    assert!(
        matches!(table.heard.as_slice(), [Up::Hello(_)]),
        "{:?}",
        table.heard
    );
}
