//! Renders what each cluster must hold: replicas, then overrides, then pruning; the canonical bytes and their bookkeeping.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use interpreter::{Dependency, Interpreter, Kind, Operation};
use serde_json::{Value, json};
use shared::ids::{ClusterName, Digest, ObjectKey};
use shared::limits::{CONTENT_BYTES_MAX, ENTRY_DEPENDENCIES_MAX};
use shared::object::{canonical, split_api_version};
use shared::reason::Reason;
use shared::set::{self, DeleteMode, Entry};

use super::binding::id_label;
use super::template::{Template, take_claim_off};
use super::{Note, TemplatePlan, Work, World};
use crate::cluster::Cluster;
use crate::dependencies::DEPENDENCIES_ANNOTATION;
use crate::divide;
use crate::overrides;
use crate::policy::{AnyOverridePolicy, ConflictResolution, Suspension};
use crate::prune::prune;

/// Annotation by which a user decides about conflicts for one object, whatever its policy says.
const CONFLICT_ANNOTATION: &str = "work.karmada.io/conflict-resolution";

/// Everything the works of one template have in common.
pub(super) struct Render<'a> {
    pub(super) world: &'a World,
    pub(super) template: &'a Template,
    pub(super) interpreter: &'a dyn Interpreter,
    pub(super) work: String,
    /// Has the kind replicas, which are set per cluster?
    pub(super) divides: bool,
    /// Are they divided, not duplicated?
    pub(super) divided: bool,
    pub(super) conflict: ConflictResolution,
    pub(super) suspension: Option<&'a Suspension>,
    pub(super) preserve: bool,
    pub(super) binding: Option<&'a Value>,
    /// Labels of the copy that was given up, for the only new one.
    pub(super) carried: Option<BTreeMap<String, String>>,
}

/// Why one cluster's manifest could not be made.
struct Broken {
    reason: Reason,
    message: String,
}

impl Broken {
    fn render(message: impl Into<String>) -> Self {
        Self {
            reason: Reason::RenderFailed,
            message: message.into(),
        }
    }
}

/// Rendered content, shared by the clusters that hold the same.
type Content = (Digest, Arc<[u8]>);

impl Render<'_> {
    /// Renders for every cluster, with its replicas. A cluster whose manifest cannot be made gets a note and keeps what it
    /// has.
    pub(super) fn all(&self, wanted: &[(&Cluster, i64)], plan: &mut TemplatePlan) {
        let mut base = (*self.template.object).clone();
        take_claim_off(&mut base);
        prune(&mut base);
        let completions = self.completions(wanted);
        let rules = self.rules();
        let needs = self.needs();
        let mut same: HashMap<(i64, Option<i64>), Content> = HashMap::new();
        let mut by_digest: HashMap<Digest, Arc<[u8]>> = HashMap::new();
        let mut entries: HashMap<(Digest, bool), Arc<Entry>> = HashMap::new();
        for (cluster, replicas) in wanted {
            let share = completions.get(cluster.name.as_str()).copied();
            let known = if rules.is_empty() {
                same.get(&(*replicas, share)).cloned()
            } else {
                None
            };
            let content = match known {
                Some(content) => Ok(content),
                None => self.content(&base, cluster, *replicas, share, &rules),
            };
            match content.and_then(|content| {
                Ok((
                    ClusterName::new(&cluster.name).map_err(|e| Broken::render(e.to_string()))?,
                    content,
                ))
            }) {
                Ok((name, (digest, bytes))) => {
                    let bytes = by_digest.entry(digest).or_insert(bytes).clone();
                    same.insert((*replicas, share), (digest, bytes.clone()));
                    let suspended = self
                        .suspension
                        .is_some_and(|suspension| suspension.holds(&cluster.name));
                    if suspended {
                        let message = "dispatching is suspended; the cluster keeps what it has".to_owned();
                        plan.notes.push(Note {
                            reason: Reason::Suspended,
                            cluster: Some(cluster.name.clone()),
                            message,
                        });
                    }
                    plan.works.push(Work {
                        entry: entries
                            .entry((digest, suspended))
                            .or_insert_with(|| Arc::new(self.entry(suspended, digest, bytes.len(), &needs)))
                            .clone(),
                        cluster: name,
                        content: bytes,
                    });
                }
                Err(Broken { reason, message }) => {
                    plan.notes.push(Note {
                        reason,
                        cluster: Some(cluster.name.clone()),
                        message,
                    });
                }
            }
        }
    }

    /// Override policies that select the template.
    fn rules(&self) -> Vec<&AnyOverridePolicy> {
        let subject = self.template.subject();
        self.world
            .overrides
            .iter()
            .filter(|policy| overrides::selects(policy, &subject))
            .collect()
    }

    /// Shares of a divided Job's completions, in proportion to the replicas.
    fn completions(&self, wanted: &[(&Cluster, i64)]) -> BTreeMap<String, i64> {
        let object = &self.template.object;
        let job = self.template.api_version == "batch/v1" && self.template.key.kind == "Job";
        let Some(total) = object["spec"]["completions"]
            .as_i64()
            .filter(|_| job && self.divided)
        else {
            return BTreeMap::new();
        };
        let weights: Vec<(String, i64)> = wanted
            .iter()
            .map(|(c, replicas)| (c.name.clone(), *replicas))
            .collect();
        divide::dispense(total, &weights, &[], &self.template.uid)
            .into_iter()
            .map(|share| (share.cluster, share.replicas))
            .collect()
    }

    fn content(
        &self,
        base: &Value,
        cluster: &Cluster,
        replicas: i64,
        completions: Option<i64>,
        rules: &[&AnyOverridePolicy],
    ) -> Result<Content, Broken> {
        let mut object = self.revised(base, replicas)?;
        if let Some(completions) = completions {
            object["spec"]["completions"] = json!(completions);
        }
        if !rules.is_empty() {
            overrides::apply(&mut object, &self.template.subject(), cluster, rules).map_err(|error| {
                Broken {
                    reason: Reason::OverrideFailed,
                    message: error.to_string(),
                }
            })?;
            prune(&mut object);
        }
        for (key, value) in self.carried.iter().flatten() {
            shared::object::set_label(&mut object, key, value);
        }
        let bytes = canonical(&object);
        if bytes.len() > CONTENT_BYTES_MAX {
            let message = format!(
                "{} bytes in canonical form are more than {CONTENT_BYTES_MAX}",
                bytes.len()
            );
            return Err(Broken {
                reason: Reason::ContentTooLarge,
                message,
            });
        }
        Ok((Digest::of(&bytes), bytes.into()))
    }

    fn revised(&self, base: &Value, replicas: i64) -> Result<Value, Broken> {
        if !self.divides {
            return Ok(base.clone());
        }
        let kind = Kind::of(base).map_err(|error| Broken::render(error.to_string()))?;
        if !self.interpreter.supports(&kind, Operation::ReviseReplica) {
            return Ok(base.clone());
        }
        self.interpreter
            .revise_replica(base, replicas)
            .map_err(|error| Broken {
                reason: error.reason_or(Reason::RenderFailed),
                message: error.to_string(),
            })
    }

    /// Objects that go along with this one and that its agent applies first, where the set holds them.
    fn needs(&self) -> Vec<ObjectKey> {
        let noted = |binding: &Value| -> Option<Vec<Dependency>> {
            let text = binding["metadata"]["annotations"][DEPENDENCIES_ANNOTATION].as_str()?;
            serde_json::from_str(text).ok()
        };
        let key = |need: Dependency| {
            let (group, _) = split_api_version(&need.api_version);
            let name = need.name.filter(|name| !name.is_empty())?;
            let namespace = need.namespace.unwrap_or_default();
            Some(ObjectKey::new(group, &need.kind, &namespace, &name))
        };
        let needs = self.binding.and_then(noted).unwrap_or_default().into_iter();
        let keys: BTreeSet<ObjectKey> = needs.filter_map(key).collect();
        keys.into_iter()
            .filter(|key| *key != self.template.key)
            .take(ENTRY_DEPENDENCIES_MAX)
            .collect()
    }

    fn entry(&self, suspended: bool, digest: Digest, length: usize, needs: &[ObjectKey]) -> Entry {
        let label = id_label(&self.template.key.namespace);
        let id = self
            .binding
            .and_then(|binding| binding["metadata"]["labels"][label].as_str());
        Entry {
            key: self.template.key.clone(),
            digest,
            length: u32::try_from(length).expect("content is at most 3 MiB, checked when it was rendered"),
            work: self.work.clone(),
            template_uid: self.template.uid.clone(),
            template_generation: self.template.generation,
            conflict_resolution: self.conflict_resolution(),
            suspended,
            delete_mode: if self.preserve {
                DeleteMode::Release
            } else {
                DeleteMode::Delete
            },
            retain_replicas: self
                .template
                .labels
                .get(interpreter::RETAIN_REPLICAS_LABEL)
                .is_some_and(|v| v == "true"),
            dependencies: needs.to_vec(),
            labels: id
                .map(|id| (label.to_owned(), id.to_owned()))
                .into_iter()
                .collect(),
        }
    }

    fn conflict_resolution(&self) -> set::ConflictResolution {
        let annotation = self.template.object["metadata"]["annotations"][CONFLICT_ANNOTATION].as_str();
        match (annotation, self.conflict) {
            (Some("overwrite"), _) => set::ConflictResolution::Overwrite,
            (Some("abort"), _) => set::ConflictResolution::Abort,
            (_, ConflictResolution::Overwrite) => set::ConflictResolution::Overwrite,
            (_, ConflictResolution::Abort) => set::ConflictResolution::Abort,
        }
    }
}
