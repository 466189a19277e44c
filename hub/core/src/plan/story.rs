//! How a plan came about, written down while it is made: for `pinnace why`.
//!
//! The stages themselves write into it, so what it says is what was decided. Without a story nothing is written.

use std::cell::RefCell;

use super::pass::Pass;
use super::wanted::Wanted;
use crate::explain::Unit;
use crate::failover::EvictionTask;
use crate::matching::Surveyed;
use crate::policy::{AnyPropagationPolicy, Placement};
use crate::schedule::trigger::Trigger;
use crate::schedule::{self, Record, Request, Try};

/// How a plan came about.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Story {
    /// Policies in reach of the template, and what each has to do with it. Sorted by policy.
    pub policies: Vec<Surveyed>,
    /// How its place was found; `None`: it came to no scheduling.
    pub placing: Option<Placing>,
}

/// How the place of a template was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Placing {
    /// Why it was scheduled, or why not.
    pub why: Occasion,
    /// What was found about clusters; for what stays where it is, as it would be found now.
    pub record: Record,
    /// What estimates count.
    pub unit: Unit,
    /// Wanted replicas.
    pub replicas: i64,
    /// The placement of the policy.
    pub placement: Placement,
    /// Moves away from clusters that are going on.
    pub tasks: Vec<EvictionTask>,
    /// When it was last scheduled, RFC 3339.
    pub last_scheduled: Option<String>,
}

/// Why a template was scheduled in this plan, or why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Occasion {
    /// It was.
    Trigger(Trigger),
    /// There was no reason to: it stays where it is.
    Kept,
    /// Scheduling is suspended on the binding.
    Suspended,
    /// Another scheduler decides.
    Foreign(String),
}

impl Pass<'_> {
    /// The record that scheduling fills in; `None`: there is no story.
    pub(super) fn record(&self) -> Option<Record> {
        self.story.map(|_| Record::default())
    }

    /// Writes down how scheduling went. `record`: what it found; `None`: it did not run, and clusters are judged as they
    /// are now.
    pub(super) fn tell(
        &self,
        why: Occasion,
        policy: &AnyPropagationPolicy,
        wanted: &Wanted,
        request: &Request<'_>,
        record: Option<Record>,
    ) {
        let Some(story) = self.story else { return };
        let record = record.unwrap_or_else(|| Record {
            passed_over: Vec::new(),
            tries: vec![Try {
                group: request.observed_group.map(str::to_owned),
                judged: schedule::assess(&self.world.fleet, request),
                selected: Vec::new(),
                divisions: Vec::new(),
                outcome: Ok(request.previous.to_vec()),
            }],
        });
        let status = self.previous.binding.map(|binding| &binding["status"]);
        story.borrow_mut().placing = Some(Placing {
            why,
            record,
            unit: wanted.unit(policy),
            replicas: wanted.replicas,
            placement: policy.spec.placement.clone(),
            tasks: self.former.tasks.clone(),
            last_scheduled: status.and_then(|status| Some(status["lastScheduledTime"].as_str()?.to_owned())),
        });
    }
}

/// Where stages write.
pub(super) type Pages = RefCell<Story>;
