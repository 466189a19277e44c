use std::collections::BTreeMap;

use super::*;
use shared::ids::{BootId, KeyNumber, ObjectKey, PublicKey, ReportSeq};
use shared::keys::{KeyStatement, Receipt, SigningKey};
use shared::set::{ConflictResolution, DeleteMode, Entry, Head};
use shared::wire::{Assembly, Beat, Chunk, Offer, Progress, Want, cut, encode_set};

/// Contents by digest in memory.
#[derive(Default)]
struct Contents(BTreeMap<Digest, Arc<[u8]>>);

impl Shelf for Contents {
    fn content(&self, digest: &Digest) -> Option<Arc<[u8]>> {
        self.0.get(digest).cloned()
    }
}

/// A ship with a store that takes everything, and the words an agent would say.
struct Bench {
    ship: Ship,
    keys: HubKeys,
    contents: Contents,
    encodings: Encodings,
    now: Millis,
    effects: Vec<Effect>,
    notes: Vec<Reason>,
    hangups: usize,
}

const INCARNATION: Incarnation = Incarnation([2; 16]);

fn cluster() -> ClusterName {
    ClusterName::new("shop").unwrap()
}

fn keys() -> HubKeys {
    let (root, signer) = (
        SigningKey::from_seed(&[1; 32]).unwrap(),
        SigningKey::from_seed(&[3; 32]).unwrap(),
    );
    let statement = KeyStatement::issue(&root, FleetId([1; 16]), KeyNumber(1), signer.public());
    HubKeys::new(root.public(), statement, signer).unwrap()
}

impl Bench {
    fn new(known: Known) -> Self {
        let enrolled = Enrolled {
            fleet: FleetId([1; 16]),
            cluster: cluster(),
            incarnation: INCARNATION,
        };
        Self {
            ship: Ship::new(enrolled, known, Boots::default()),
            keys: keys(),
            contents: Contents::default(),
            encodings: Encodings::default(),
            now: Millis(1000),
            effects: vec![],
            notes: vec![],
            hangups: 0,
        }
    }

    fn event(&mut self, event: Event) -> Vec<Down> {
        let mut random = || 7;
        let mut desk = Desk {
            keys: &self.keys,
            shelf: &self.contents,
            encodings: &mut self.encodings,
            random: &mut random,
            time: UnixSeconds(50),
        };
        self.ship.handle(self.now, event, &mut desk);
        let mut sent = vec![];
        while let Some(output) = self.ship.poll() {
            match output {
                Output::Send(down) => sent.push(down),
                Output::Store(effect) => self.effects.push(effect),
                Output::Note(reason, _) => self.notes.push(reason),
                Output::Hangup => self.hangups += 1,
            }
        }
        sent
    }

    fn up(&mut self, up: Up) -> Vec<Down> {
        self.event(Event::Message {
            up: Box::new(up),
            bytes: 100,
        })
    }

    fn set(&mut self, sequence: u64, contents: &[(&str, &[u8])]) -> Current {
        let entries = contents.iter().map(|(name, content)| {
            self.contents.0.insert(Digest::of(content), (*content).into());
            Arc::new(entry(name, content))
        });
        let set = Set::new(entries.collect(), vec![]).unwrap();
        Current {
            sequence: Sequence(sequence),
            digest: set.digest(),
            set: Arc::new(set),
        }
    }

    fn hello(&mut self, boot: u8, proposed: u64, held: Option<SignedHead>) -> Hello {
        let receipt = Receipt {
            fleet: self.keys.fleet(),
            cluster: cluster(),
            incarnation: INCARNATION,
            identity: PublicKey([9; 32]),
            kube_system_uid: "uid".into(),
            labels: BTreeMap::new(),
            provider: String::new(),
            region: String::new(),
            zones: vec![],
        };
        Hello {
            boot: BootId([boot; 16]),
            proposed_session: Session(proposed),
            held,
            highest_key_number: KeyNumber(1),
            receipt: receipt.sign(&self.keys),
            kube_system_uid: "uid".into(),
            kubernetes_version: "v1.36.0".into(),
            agent_version: "0.1.0".into(),
            confirmed_time_s: UnixSeconds(0),
        }
    }

    fn head(&self, current: &Current) -> SignedHead {
        let head = Head {
            fleet: self.keys.fleet(),
            cluster: cluster(),
            incarnation: INCARNATION,
            sequence: current.sequence,
            digest: current.digest,
            key_number: KeyNumber(0),
        };
        head.sign(&self.keys)
    }

    fn connect(&mut self, boot: u8, proposed: u64, held: Option<SignedHead>) -> Vec<Down> {
        assert_eq!(self.event(Event::Connected), []);
        let hello = self.hello(boot, proposed, held);
        self.up(Up::Hello(hello))
    }
}

fn entry(name: &str, content: &[u8]) -> Entry {
    Entry {
        key: ObjectKey::new("", "ConfigMap", "prod", name),
        digest: Digest::of(content),
        length: content.len() as u32,
        work: name.into(),
        template_uid: "u".into(),
        template_generation: 1,
        conflict_resolution: ConflictResolution::Abort,
        suspended: false,
        delete_mode: DeleteMode::Delete,
        retain_replicas: false,
        dependencies: vec![],
        labels: BTreeMap::new(),
    }
}

fn offers(sent: &[Down]) -> Vec<&Offer> {
    sent.iter()
        .filter_map(|d| {
            if let Down::Offer(o) = d {
                Some(o.as_ref())
            } else {
                None
            }
        })
        .collect()
}

fn welcome(sent: &[Down]) -> Welcome {
    sent.iter()
        .find_map(|d| if let Down::Welcome(w) = d { Some(*w) } else { None })
        .unwrap()
}

#[test]
fn nothing_before_the_hello_then_published_before_sent() {
    let mut b = Bench::new(Known::default());
    let first = b.set(1, &[("a", b"one")]);
    assert_eq!(b.event(Event::Set(first.clone())), []);
    assert_eq!(b.event(Event::Connected), []);
    assert_eq!(
        b.up(Up::Beat(Beat {
            sequence: Sequence(0),
            digest: first.digest,
            uptime_ms: 1
        })),
        []
    );
    let hello = b.hello(1, 1, None);
    let sent = b.up(Up::Hello(hello));
    assert_eq!(welcome(&sent).session, Session(1));
    let offer = offers(&sent)[0].clone();
    assert!(matches!(
        b.effects[0],
        Effect::Hello {
            session: Session(1),
            ..
        }
    ));
    assert_eq!(b.effects[1], Effect::Published(Sequence(1)));
    let signed = offer.head(b.keys.fleet(), cluster(), INCARNATION);
    assert_eq!(signed.verify(&b.keys.ring()), Ok(()));
    let got = offer.delta.unwrap().apply(&Set::default()).unwrap();
    assert_eq!(got.digest(), first.digest);
    assert_eq!(offer.inline.len(), 1);
    assert_eq!(
        b.up(Up::Ack(Ack {
            sequence: Sequence(1),
            digest: first.digest
        })),
        []
    );
    assert_eq!(b.effects.last(), Some(&Effect::Acked(Sequence(1), first.digest)));
    assert!(b.ship.in_sync());
    assert_eq!(b.ship.wake_at(), None);
}

#[test]
fn repeats_with_backoff_up_to_the_ceiling_and_newer_sets_supersede() {
    let mut b = Bench::new(Known::default());
    let first = b.set(1, &[("a", b"one")]);
    b.event(Event::Set(first));
    assert_eq!(offers(&b.connect(1, 1, None)).len(), 1);
    let mut waits = vec![];
    for _ in 0..9 {
        let at = b.ship.wake_at().unwrap();
        waits.push(at.since(b.now));
        b.now = at;
        assert_eq!(offers(&b.event(Event::Tick)).len(), 1);
    }
    assert!(
        waits[1] > waits[0] && waits[8] <= shared::limits::RESEND_CEILING_MS * 5 / 4,
        "{waits:?}"
    );
    // Two are on their way already: a newer set waits for the timer, then only it is sent.
    let second = b.set(2, &[("a", b"two")]);
    let third = b.set(3, &[("a", b"three")]);
    assert_eq!(b.event(Event::Set(second)), []);
    assert_eq!(b.event(Event::Set(third)), []);
    b.now = b.ship.wake_at().unwrap();
    assert_eq!(offers(&b.event(Event::Tick))[0].sequence, Sequence(3));
}

#[test]
fn a_changed_line_rides_as_a_small_delta_with_prefix() {
    let mut b = Bench::new(Known::default());
    let text = |n: u32| {
        let lines: String = (0..900)
            .map(|i| format!("{}\n", Digest::of(&[i as u8, (i >> 8) as u8])))
            .collect();
        format!("{lines}{n}{lines}").into_bytes()
    };
    let (old, new) = (text(1), text(2));
    let first = b.set(1, &[("a", &old), ("b", b"same")]);
    b.event(Event::Set(first.clone()));
    b.connect(1, 1, None);
    b.up(Up::Ack(Ack {
        sequence: Sequence(1),
        digest: first.digest,
    }));
    let second = b.set(2, &[("a", &new), ("b", b"same")]);
    let sent = b.event(Event::Set(second));
    let offer = offers(&sent)[0];
    assert_eq!((offer.base, offer.inline.len()), (Sequence(1), 1));
    assert_eq!(offer.inline[0].encoding, shared::wire::InlineEncoding::Previous);
    let size = shared::wire::encode_down(&sent[0]).len();
    assert!(size <= 330, "{size} bytes");
}

#[test]
fn large_contents_are_pulled_in_chunks_of_this_cluster_only() {
    let mut b = Bench::new(Known::default());
    let noise: Vec<u8> = (0..20_000u32)
        .flat_map(|i| Digest::of(&i.to_be_bytes()).0)
        .collect();
    let current = b.set(1, &[("big", &noise)]);
    b.contents.0.insert(
        Digest::of(b"of another cluster"),
        b"of another cluster"[..].into(),
    );
    b.event(Event::Set(current.clone()));
    let sent = b.connect(1, 1, None);
    assert_eq!(offers(&sent)[0].inline, []);
    let digest = Digest::of(&noise);
    let mut assembly = Assembly::new(What::Content(digest));
    let mut chunks = 0;
    loop {
        let want = Want {
            what: assembly.what(),
            offset: assembly.offset(),
            base: None,
            raw: false,
        };
        let sent = b.up(Up::Want(want));
        let [Down::Chunk(chunk)] = sent.as_slice() else {
            panic!("{sent:?}")
        };
        assert_eq!(chunk.descriptor.is_some(), chunk.offset == 0);
        chunks += 1;
        if assembly.add(chunk) == Progress::Complete {
            break;
        }
    }
    assert!(chunks > 2);
    assert_eq!(assembly.finish(&digest, noise.len(), |_| None).unwrap(), noise);
    let foreign = What::Content(Digest::of(b"of another cluster"));
    assert_eq!(
        b.up(Up::Want(Want {
            what: foreign,
            offset: 0,
            base: None,
            raw: true
        })),
        []
    );
    let whole = b.up(Up::Want(Want {
        what: What::Set(Sequence(1)),
        offset: 0,
        base: None,
        raw: false,
    }));
    assert!(matches!(&whole[..], [Down::Chunk(c)] if c.what == What::Set(Sequence(1))));
    assert_eq!(
        b.up(Up::Want(Want {
            what: What::Set(Sequence(9)),
            offset: 0,
            base: None,
            raw: false
        })),
        []
    );
}

#[test]
fn a_refused_set_is_not_sent_again_until_it_changes() {
    let mut b = Bench::new(Known::default());
    let first = b.set(1, &[("a", b"one")]);
    b.event(Event::Set(first.clone()));
    b.connect(1, 1, None);
    let refused = Refused {
        sequence: Sequence(1),
        digest: first.digest,
        reason: Reason::BadSignature.into(),
        detail: "x".into(),
    };
    b.up(Up::Refused(refused.clone()));
    assert_eq!(b.effects.last(), Some(&Effect::Refused(refused)));
    assert_eq!(b.ship.wake_at(), None);
    let second = b.set(2, &[("a", b"two")]);
    assert_eq!(offers(&b.event(Event::Set(second))).len(), 1);
}

#[test]
fn sessions_and_restored_disks() {
    let mut b = Bench::new(Known {
        session: Session(5),
        ..Known::default()
    });
    assert_eq!(welcome(&b.connect(1, 9, None)).session, Session(9));
    assert_eq!(
        welcome(&b.connect(1, 10, None)).session,
        Session(9),
        "the same process keeps its session"
    );
    assert_eq!(
        welcome(&b.connect(2, 3, None)).session,
        Session(10),
        "never below what the hub has seen"
    );
    assert_eq!(b.notes, [Reason::AgentRestored]);
}

#[test]
fn reports_are_stored_once_then_answered() {
    let mut b = Bench::new(Known::default());
    b.connect(1, 1, None);
    let report = Report {
        report_seq: ReportSeq(1),
        boot: BootId([1; 16]),
        objects: vec![],
        tombstones_done: vec![],
        strays: None,
        capacity: None,
        full: true,
    };
    let ack = Down::ReportAck(ReportAck {
        report_seq: ReportSeq(1),
    });
    assert_eq!(b.up(Up::Report(report.clone())), std::slice::from_ref(&ack));
    let stored = b.effects.len();
    assert_eq!(b.up(Up::Report(report)), [ack]);
    assert_eq!(b.effects.len(), stored);
    assert_eq!(welcome(&b.connect(1, 1, None)).last_report, ReportSeq(1));
}

#[test]
fn two_boots_that_alternate_are_clones_and_get_nothing_new() {
    let mut b = Bench::new(Known::default());
    let first = b.set(1, &[("a", b"one")]);
    b.event(Event::Set(first));
    for (boot, proposed) in [(1, 1), (2, 1), (1, 1)] {
        assert_eq!(offers(&b.connect(boot, proposed, None)).len(), 1);
    }
    assert_eq!(offers(&b.connect(2, 2, None)).len(), 0);
    assert!(b.effects.contains(&Effect::Clone));
    // Restarts, however many, are no clones: each has a new boot id.
    let mut b = Bench::new(Known::default());
    for boot in 1..20 {
        b.connect(boot, 1, None);
    }
    assert!(!b.effects.contains(&Effect::Clone));
}

/// An agent that holds a set this hub never made.
fn behind(known: Known, held: u64) -> (Bench, SignedHead, Arc<Set>) {
    let mut b = Bench::new(known);
    let theirs = b.set(held, &[("mine", b"new"), ("lost", b"lost")]);
    let head = b.head(&theirs);
    let ours = b.set(4, &[("mine", b"old")]);
    b.ship.known.heads = vec![HeadRecord {
        sequence: Sequence(4),
        digest: ours.digest,
    }];
    b.event(Event::Set(ours));
    (b, head, theirs.set)
}

#[test]
fn a_hub_that_went_back_ships_nothing_until_it_is_decided() {
    for held in [4, 7] {
        let (mut b, head, set) = behind(
            Known {
                published: Sequence(4),
                ..Known::default()
            },
            held,
        );
        let sent = b.connect(1, 1, Some(head.clone()));
        assert!(welcome(&sent).behind);
        assert_eq!(offers(&sent).len(), 0);
        assert!(matches!(sent.last(), Some(Down::Ask(a)) if a.what == What::Set(Sequence(held))));
        assert_eq!(b.effects.last(), Some(&Effect::Behind(head.clone())));
        let edited = b.set(5, &[("mine", b"edited")]);
        assert_eq!(b.event(Event::Set(edited)), []);
        b.event(Event::PushHub(Winner::Hub));
        assert!(b.ship.is_behind(), "the held set is not known yet");
        let bytes = encode_set(&set);
        let what = What::Set(Sequence(held));
        let chunk: Chunk = cut(
            what,
            shared::bundle::Encoding::Raw,
            &bytes,
            Digest::of(&bytes),
            bytes.len() as u32,
            0,
        )
        .unwrap();
        assert_eq!(b.up(Up::Held(chunk)), []);
        assert_eq!(
            b.effects.last(),
            Some(&Effect::HeldSet(head.clone(), Arc::clone(&set)))
        );
        assert_eq!(b.event(Event::PushHub(Winner::Hub)), []);
        let Some(Effect::PushHub(push)) = b.effects.last().cloned() else {
            panic!("{:?}", b.effects.last())
        };
        assert_eq!(push.above, Sequence(held.max(5)));
        assert_eq!(push.tombstones.len(), 1);
        assert_eq!(push.tombstones[0].key.name, "lost");
        let mut tombstones = push.tombstones;
        tombstones[0].sequence = push.above.next();
        let next = Set::new(vec![Arc::new(entry("mine", b"edited"))], tombstones).unwrap();
        let next = Current {
            sequence: push.above.next(),
            digest: next.digest(),
            set: Arc::new(next),
        };
        let sent = b.event(Event::Set(next.clone()));
        let offer = offers(&sent)[0];
        assert_eq!(offer.base, Sequence(held));
        assert_eq!(
            offer.delta.as_ref().unwrap().apply(&set).unwrap().digest(),
            next.digest
        );
    }
}

#[test]
fn unpublished_sets_that_an_agent_holds_show_a_restored_hub() {
    let mut b = Bench::new(Known::default());
    let (first, second) = (b.set(1, &[("a", b"one")]), b.set(2, &[]));
    b.event(Event::Set(first.clone()));
    let head = b.head(&first);
    // The newest of ours: only the mark was lost.
    assert!(!welcome(&b.connect(1, 1, Some(head.clone()))).behind);
    assert!(b.effects.contains(&Effect::Published(Sequence(1))));
    // A newer one was made since, without a tombstone for `a`.
    let mut b = Bench::new(Known::default());
    b.event(Event::Set(first));
    b.event(Event::Set(second));
    assert!(welcome(&b.connect(1, 1, Some(head))).behind);
}

#[test]
fn an_old_disk_is_brought_up_to_date() {
    let mut b = Bench::new(Known::default());
    let sets: Vec<Current> = (1..=3).map(|i| b.set(i, &[("a", &[i as u8])])).collect();
    for set in &sets {
        b.event(Event::Set(set.clone()));
    }
    b.ship.known.acked = Sequence(3);
    b.ship.known.published = Sequence(3);
    let head = b.head(&sets[0]);
    let sent = b.connect(1, 1, Some(head));
    assert!(!welcome(&sent).behind);
    assert_eq!(
        offers(&sent)[0].base,
        Sequence(0),
        "the old set is no base any more"
    );
}

#[test]
fn offers_that_were_overtaken_hold_the_next_one_back_no_longer() {
    let mut b = Bench::new(Known::default());
    b.connect(1, 1, None);
    for sequence in 1..=5 {
        let set = b.set(sequence, &[("a", format!("{sequence}").as_bytes())]);
        let sent = b.event(Event::Set(set));
        assert_eq!(
            offers(&sent)[0].sequence,
            Sequence(sequence),
            "nothing is on its way"
        );
        assert_eq!(b.event(Event::Unsent(Sequence(sequence))), []);
    }
    let (sixth, seventh) = (b.set(6, &[("a", b"six")]), b.set(7, &[("a", b"seven")]));
    assert_eq!(offers(&b.event(Event::Set(sixth))).len(), 1);
    assert_eq!(offers(&b.event(Event::Set(seventh))).len(), 1);
    let eighth = b.set(8, &[("a", b"eight")]);
    assert_eq!(b.event(Event::Set(eighth)), [], "two are on their way");
    // The newer set is known already when the store says that the older one is overtaken.
    assert_eq!(
        offers(&b.event(Event::Unsent(Sequence(7))))[0].sequence,
        Sequence(8)
    );
}

/// A hub that was set back to its set 4, and an agent whose set 6 of before became whole after its hello.
fn set_back() -> (Bench, Current) {
    let mut b = Bench::new(Known {
        published: Sequence(4),
        ..Known::default()
    });
    let theirs = b.set(6, &[("a", b"of before")]);
    let ours = b.set(4, &[("a", b"one")]);
    b.event(Event::Set(ours.clone()));
    let head = b.head(&ours);
    assert!(!welcome(&b.connect(1, 1, Some(head))).behind);
    (b, theirs)
}

#[test]
fn words_about_a_set_of_before_lead_to_a_new_hello_and_hub_behind() {
    let ack = |set: &Current| {
        Up::Ack(Ack {
            sequence: set.sequence,
            digest: set.digest,
        })
    };
    let beat = |set: &Current| {
        Up::Beat(Beat {
            sequence: set.sequence,
            digest: set.digest,
            uptime_ms: 1,
        })
    };
    // Before this hub has a set of that number, when it has, and when it is past it.
    for (made, word) in [(4, 0), (5, 0), (6, 0), (6, 1), (6, 2), (6, 3), (8, 0), (8, 1)] {
        let (mut b, theirs) = set_back();
        let mut newest = None;
        for sequence in 5..=made {
            let set = b.set(sequence, &[("a", format!("{sequence}").as_bytes())]);
            b.event(Event::Set(set.clone()));
            newest = Some(set);
        }
        let refused = |reason: Reason| {
            let newest = newest.as_ref().unwrap();
            Up::Refused(Refused {
                sequence: newest.sequence,
                digest: newest.digest,
                reason: reason.into(),
                detail: String::new(),
            })
        };
        let up = match word {
            0 => ack(&theirs),
            1 => beat(&theirs),
            2 => refused(Reason::SequenceReused),
            _ => refused(Reason::StaleSequence),
        };
        let (effects, hangups) = (b.effects.len(), b.hangups);
        assert_eq!(b.up(up), [], "{made} {word}");
        assert_eq!(b.hangups, hangups + 1, "{made} {word}");
        assert_eq!(
            b.effects.len(),
            effects,
            "nothing is believed without a signature"
        );
        // Until the hello nothing is said, whatever comes.
        let later = b.set(9, &[("a", b"later")]);
        assert_eq!(b.event(Event::Set(later)), []);
        assert_eq!(b.up(ack(&theirs)), []);
        assert_eq!(b.hangups, hangups + 1);
        let head = b.head(&theirs);
        let sent = b.connect(1, 1, Some(head));
        assert!(welcome(&sent).behind, "{made} {word}");
        assert_eq!(
            offers(&sent).len(),
            0,
            "{made} {word}: nothing is shipped before somebody decides"
        );
        assert!(b.ship.is_behind(), "{made} {word}");
    }
}

#[test]
fn a_conversation_is_ended_once_for_the_same_words() {
    let (mut b, theirs) = set_back();
    let fifth = b.set(5, &[("a", b"five")]);
    b.event(Event::Set(fifth.clone()));
    let refused = Refused {
        sequence: Sequence(5),
        digest: fifth.digest,
        reason: Reason::StaleSequence.into(),
        detail: String::new(),
    };
    let ack = Up::Ack(Ack {
        sequence: theirs.sequence,
        digest: theirs.digest,
    });
    for (hangups, up) in [(1, Up::Refused(refused.clone())), (2, ack)] {
        b.up(up.clone());
        assert_eq!(b.hangups, hangups);
        // An agent that says one thing in its hello and another after it is not sent round and round.
        b.connect(1, 1, None);
        b.up(up);
        assert_eq!(b.hangups, hangups);
    }
    assert!(
        b.effects.contains(&Effect::Refused(refused)),
        "shown to people instead"
    );
}

#[test]
fn an_unmarked_set_that_is_acknowledged_was_published() {
    let mut b = Bench::new(Known::default());
    b.connect(1, 1, None);
    let (first, second) = (b.set(1, &[("a", b"one")]), b.set(2, &[]));
    let ack = Up::Ack(Ack {
        sequence: first.sequence,
        digest: first.digest,
    });
    b.ship.known.heads = vec![HeadRecord {
        sequence: first.sequence,
        digest: first.digest,
    }];
    assert_eq!(b.up(ack.clone()), []);
    assert_eq!(
        b.effects[b.effects.len() - 2..],
        [
            Effect::Published(Sequence(1)),
            Effect::Acked(Sequence(1), first.digest)
        ]
    );
    // A newer one was made since, without a tombstone for `a`.
    let mut b = Bench::new(Known::default());
    b.connect(1, 1, None);
    b.ship.known.heads = [&first, &second]
        .map(|set| HeadRecord {
            sequence: set.sequence,
            digest: set.digest,
        })
        .to_vec();
    assert_eq!(b.up(ack), []);
    assert_eq!(b.hangups, 1);
    let head = b.head(&first);
    assert!(welcome(&b.connect(1, 1, Some(head))).behind);
}
