//! The loop of the simulation.

use std::collections::BTreeSet;
use std::sync::Arc;

use agent_core::session::Identity;
use shared::ids::{BootId, ClusterName, Digest, FleetId, Incarnation, KeyNumber, ObjectKey};
use shared::keys::{HubKeys, KeyStatement, Receipt, RootPin, SigningKey};
use shared::set::{ConflictResolution, DeleteMode};
use shared::time::Millis;
use shared::topics::Direction;

use super::Options;
use super::disk::Template;
use super::faults::Faults;
use super::hub::{Enrolment, Hub, Scene};
use super::ledger::Ledger;
use super::network::{FLIGHTS_MAX, Network};
use super::node::Node;
use super::oracle;
use super::trace::Trace;
use mutation::Random;

/// Names that templates and other people use.
const NAMES: [&str; 7] = ["a", "b", "c", "d", "e", "f", "g"];
/// Virtual time within which everything must agree after it healed.
const HEAL_MS: u64 = 3_600_000;
/// Virtual time of silence that is measured after that.
const IDLE_MS: u64 = 1_200_000;

/// Hub, agents, members and the ways between.
#[derive(Debug)]
pub struct World {
    now: Millis,
    hub: Hub,
    nodes: Vec<Node>,
    nets: Vec<Network>,
    faults: Faults,
    trace: Trace,
    rng: Random,
    users: Random,
    next_uid: u64,
    heavy: bool,
}

fn keys() -> HubKeys {
    let root = SigningKey::from_seed(&[1; 32]).expect("32 bytes are a seed");
    let signer = SigningKey::from_seed(&[3; 32]).expect("32 bytes are a seed");
    let statement = KeyStatement::issue(&root, FleetId([1; 16]), KeyNumber(1), signer.public());
    HubKeys::new(root.public(), statement, signer).expect("the statement was just made")
}

fn key_of(rng: &mut Random) -> ObjectKey {
    let name = NAMES[rng.below(NAMES.len() as u64) as usize];
    if name == "g" {
        ObjectKey::new("batch", "Job", "prod", name)
    } else {
        ObjectKey::new("", "ConfigMap", "prod", name)
    }
}

macro_rules! scene {
    ($world:expr) => {
        Scene {
            now: $world.now,
            trace: &mut $world.trace,
            faults: &$world.faults,
        }
    };
}

impl World {
    /// A world of one to three clusters, from a seed.
    #[must_use]
    pub fn new(seed: u64, options: Options) -> Self {
        let root = Random::new(seed);
        let mut rng = root.child("world");
        let mut faults = Faults::of(&mut root.child("faults"));
        faults.bug = options.bug;
        let keys = keys();
        let pin = RootPin::of(&keys.root);
        let (mut enrolments, mut nodes, mut nets) = (vec![], vec![], vec![]);
        for index in 0..rng.range(1, 4) as usize {
            let cluster = ClusterName::new(&format!("c{index}")).expect("a short label");
            let identity = SigningKey::from_seed(&[40 + index as u8; 32]).expect("32 bytes are a seed");
            let incarnation = Incarnation(rng.bytes16());
            let receipt = Receipt {
                fleet: keys.fleet(),
                cluster: cluster.clone(),
                incarnation,
                identity: identity.public(),
                kube_system_uid: "uid".into(),
                labels: Default::default(),
                provider: String::new(),
                region: String::new(),
                zones: vec![],
            };
            let ledger = Ledger::new(keys.ring(), receipt.sign(&keys));
            enrolments.push(Enrolment {
                cluster: cluster.clone(),
                incarnation,
                identity: identity.public(),
            });
            let identity = Identity {
                cluster,
                pin,
                key: Arc::new(identity),
                boot: BootId([0; 16]),
                agent_version: "0.1.0".into(),
            };
            nodes.push(Node::new(
                index,
                identity,
                ledger,
                root.child(&format!("node {index}")),
            ));
            nets.push(Network::new(root.child(&format!("net {index}"))));
        }
        Self {
            now: Millis(1000),
            hub: Hub::new(keys, enrolments, root.child("hub")),
            nodes,
            nets,
            faults,
            trace: Trace::new(options.trace),
            users: root.child("users"),
            heavy: rng.chance(100),
            rng,
            next_uid: 0,
        }
    }

    /// Runs steps, heals, and judges.
    #[must_use]
    pub fn run(mut self, steps: u32) -> Trace {
        self.place_namespace();
        for _ in 0..steps {
            self.advance_time();
            self.users_and_faults();
            self.step();
            if self.trace.failure().is_some() {
                return self.trace;
            }
        }
        self.heal();
        self.trace
    }

    fn advance_time(&mut self) {
        let pause = match self.rng.below(100) {
            0..70 => self.rng.range(5, 120),
            70..96 => self.rng.range(120, 1500),
            _ => self.rng.range(2_000, 60_000),
        };
        self.now = self.now.plus(pause);
    }

    /// Delivers what is due and lets everybody do what is due.
    fn step(&mut self) {
        self.restart();
        let mut scene = scene!(self);
        self.hub.tick(&mut self.nets, &mut scene);
        for i in 0..self.nodes.len() {
            let mut scene = scene!(self);
            for (direction, payload) in self.nets[i].arrive(self.now) {
                match direction {
                    Direction::Up => self.hub.receive(i, &payload, &mut self.nets, &mut scene),
                    Direction::Down => {
                        self.nodes[i].receive(&payload, &mut self.nets[i], &self.hub, &mut scene)
                    }
                }
            }
            self.nodes[i].tick(&mut self.nets[i], &self.hub, &mut scene);
            self.check_acknowledged(i);
            let flying = self.nets[i].in_flight();
            self.trace.check(flying <= FLIGHTS_MAX, || {
                format!("{flying} payloads on their way to or from {i}")
            });
        }
    }

    /// What the hub knows to be acknowledged is in the ledger (unless the ledger itself was set back).
    fn check_acknowledged(&mut self, i: usize) {
        let node = &self.nodes[i];
        if node.was_restored {
            return;
        }
        let held = node
            .ledger
            .held
            .as_ref()
            .map(|h| h.head.head.sequence)
            .unwrap_or_default();
        let acked = self.hub.disk.clusters[i].acked;
        self.trace.check(acked <= held, || {
            format!("set {acked} of {i} is acknowledged, but its ledger holds {held}")
        });
    }

    fn restart(&mut self) {
        let mut scene = Scene {
            now: self.now,
            trace: &mut self.trace,
            faults: &self.faults,
        };
        if !self.hub.runs() && self.hub.restart_at <= self.now {
            self.hub.start(&mut scene);
        }
        for node in &mut self.nodes {
            if !node.runs() && node.restart_at <= self.now {
                node.start(&mut scene);
            }
        }
    }

    fn place_namespace(&mut self) {
        let clusters = (0..self.nodes.len()).collect();
        let key = ObjectKey::new("", "Namespace", "", "prod");
        let mut template = Template {
            clusters,
            ..self.new_template()
        };
        template.render(&key);
        self.hub.disk.templates.insert(key, template);
        let mut scene = scene!(self);
        self.hub.adopt(&mut scene);
    }

    fn new_template(&mut self) -> Template {
        self.next_uid += 1;
        let users = &mut self.users;
        let mut clusters = BTreeSet::new();
        for i in 0..self.nodes.len() {
            if users.chance(700) {
                clusters.insert(i);
            }
        }
        let heavy = self.heavy && users.chance(100);
        let ballast = if heavy {
            600_000
        } else if users.chance(150) {
            20_000
        } else {
            users.below(600) as usize
        };
        Template {
            uid: format!("t{}", self.next_uid),
            generation: 1,
            value: users.below(1000),
            ballast,
            clusters,
            conflict: if users.chance(300) {
                ConflictResolution::Overwrite
            } else {
                ConflictResolution::Abort
            },
            suspended: false,
            content: (Digest([0; 32]), Arc::from([])),
            delete_mode: if users.chance(200) {
                DeleteMode::Release
            } else {
                DeleteMode::Delete
            },
        }
    }

    fn users_and_faults(&mut self) {
        if self.users.chance(60) {
            self.user_edits();
        }
        if self.rng.chance(20) {
            let mut scene = scene!(self);
            self.hub.reconcile(&mut self.nets, &mut scene);
        }
        self.backups_and_restores();
        for i in 0..self.nodes.len() {
            if self.rng.chance(self.faults.cut) {
                if self.rng.chance(500) {
                    self.nets[i].cut_until = self.now.plus(self.rng.range(5_000, 400_000));
                    self.trace.note(self.now, format_args!("{i} is cut off"));
                } else {
                    let mut scene = scene!(self);
                    self.nodes[i].disconnected(&mut scene);
                    if self.rng.chance(700) {
                        self.hub.disconnected(i, &mut self.nets, &mut scene);
                    }
                }
            }
            if self.rng.chance(self.faults.foreign) {
                self.others_act(i);
            }
            if self.rng.chance(10) {
                self.nodes[i].resync();
            }
        }
    }

    fn backups_and_restores(&mut self) {
        let mut scene = scene!(self);
        if self.rng.chance(15) {
            self.hub.backup = Some(self.hub.disk.clone());
        }
        if self.rng.chance(self.faults.hub_restore) {
            self.hub.restore(&mut scene);
        }
        for node in &mut self.nodes {
            if self.rng.chance(10) {
                node.backup = Some(node.ledger.clone());
            }
            if self.rng.chance(self.faults.agent_restore) {
                node.restore(&mut scene);
            }
        }
    }

    /// A user edits a template and the planner decides anew; the hub must run for that.
    fn user_edits(&mut self) {
        if !self.hub.runs() {
            return;
        }
        let key = key_of(&mut self.users);
        let mut fresh = self.new_template();
        fresh.render(&key);
        let users = &mut self.users;
        let what = users.below(12);
        let templates = &mut self.hub.disk.templates;
        match (what, templates.get_mut(&key)) {
            (_, None) => {
                templates.insert(key.clone(), fresh);
            }
            (0 | 1, Some(_)) => {
                templates.remove(&key);
            }
            (2, Some(template)) => *template = fresh,
            (3 | 4, Some(template)) => template.clusters = fresh.clusters,
            (5, Some(template)) => template.suspended = !template.suspended,
            (6, Some(template)) => template.conflict = fresh.conflict,
            (7, Some(template)) => template.delete_mode = fresh.delete_mode,
            (_, Some(template)) => {
                template.generation += 1;
                template.value = users.below(1000);
                template.render(&key);
            }
        }
        self.trace
            .note(self.now, format_args!("user edits {key} ({what})"));
        let mut scene = scene!(self);
        self.hub.adopt(&mut scene);
    }

    /// Somebody else acts in a member.
    fn others_act(&mut self, i: usize) {
        let rng = &mut self.rng;
        let key = key_of(rng);
        let value = rng.below(1000).to_string();
        let member = &mut self.nodes[i].member;
        match rng.below(6) {
            0 => member.create_foreign(&key, &value),
            1 | 2 => member.edit_foreign(&key, "v", &value),
            3 => member.edit_foreign(&key, "theirs", &value),
            4 => member.complete(&key),
            _ => member.delete_foreign(&key),
        }
        self.trace
            .note(self.now, format_args!("others touch {key} in {i}"));
        let told = !rng.chance(self.faults.watch_loss);
        self.nodes[i].changed(&key, told);
    }

    /// Everything works again: agree, then fall silent.
    fn heal(&mut self) {
        self.trace.note(self.now, format_args!("all heals"));
        self.faults = self.faults.healed();
        for (net, node) in self.nets.iter_mut().zip(&mut self.nodes) {
            net.cut_until = self.now;
            node.resync();
        }
        let until = self.now.plus(HEAL_MS);
        let mut since = None;
        while self.now < until && self.trace.failure().is_none() {
            // Quick at first, then in strides: what is left then waits for a beat or a ceiling.
            let early = self.now.0 + HEAL_MS - until.0 < 60_000;
            self.now = self.now.plus(if early { 100 } else { 2_000 });
            let mut scene = scene!(self);
            self.hub.reconcile(&mut self.nets, &mut scene);
            self.step();
            if oracle::disagreement(&self.hub, &self.nodes).is_none() {
                since.get_or_insert(self.now);
                break;
            }
        }
        if let Some(what) = oracle::disagreement(&self.hub, &self.nodes) {
            self.trace
                .check(false, || format!("I11: an hour after all healed: {what}"));
        }
        self.fall_silent();
    }

    /// I9: nothing but beats, once everybody agrees.
    fn fall_silent(&mut self) {
        // Long enough for a connection that nobody has missed yet to be found dead at its next beat.
        let settle = self.now.plus(400_000);
        while self.now < settle && self.trace.failure().is_none() {
            self.now = self.now.plus(1000);
            self.step();
        }
        let before: u64 = self.nets.iter().map(|n| n.bytes).sum();
        let until = self.now.plus(IDLE_MS);
        while self.now < until && self.trace.failure().is_none() {
            self.now = self.now.plus(5_000);
            self.step();
        }
        let spent = self.nets.iter().map(|n| n.bytes).sum::<u64>() - before;
        let allowed = 1_500 * self.nets.len() as u64;
        self.trace.check(spent <= allowed, || {
            format!("I9: an idle fleet sent {spent} bytes in 20 minutes")
        });
        if let Some(what) = oracle::disagreement(&self.hub, &self.nodes) {
            self.trace
                .check(false, || format!("I11: agreement was lost again: {what}"));
        }
    }
}
