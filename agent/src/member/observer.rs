//! Stage 16: one metadata watch per kind in use, selected by our label. A watch tells only *that* an object
//! changed; what it is now is read one object at a time by the engine's own actions.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::{Duration, Instant};

use agent_core::pace::backoff;
use futures::TryStreamExt;
use http::{Request, header};
use kube::core::WatchEvent;
use serde::Deserialize;
use shared::ids::{Incarnation, ObjectKey};
use shared::object::split_api_version;
use shared::owned;
use shared::time::Millis;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, spawn_local};
use tokio::time::{sleep, timeout};

use super::api::{Api, escape};
use super::errors::ApiError;
use super::kinds::{Kinds, Resource};
use crate::limits::{PAGE, WATCH_CEILING, WATCH_FIRST, WATCH_SECONDS, WATCH_SILENCE, WATCHES_MAX};
use crate::random::Random;

const LIST_METADATA: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";
const WATCH_METADATA: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// What watches tell.
#[derive(Debug)]
pub enum MemberEvent {
    /// An object changed, appeared, or went.
    Changed {
        /// The object.
        key: ObjectKey,
        /// Its version now; none when it went.
        resource_version: Option<String>,
    },
    /// All objects of a kind that carry our label: every other one that we have a record of is to be read.
    Listed {
        /// API group.
        group: String,
        /// Kind.
        kind: String,
        /// Namespaces and names.
        present: BTreeSet<(String, String)>,
    },
}

/// A kind that is watched: `apiVersion` and kind.
pub type Watched = (String, String);

/// The running watches.
pub struct Watches {
    api: Api,
    kinds: Rc<Kinds>,
    selector: String,
    events: mpsc::Sender<MemberEvent>,
    random: Random,
    running: BTreeMap<Watched, JoinHandle<()>>,
}

#[derive(Clone, Deserialize)]
struct Item {
    metadata: ItemMeta,
}

#[derive(Clone, Deserialize)]
struct ItemMeta {
    name: String,
    #[serde(default)]
    namespace: String,
    #[serde(default, rename = "resourceVersion")]
    resource_version: String,
}

impl Watches {
    /// No watch yet.
    #[must_use]
    pub fn new(
        api: Api,
        kinds: Rc<Kinds>,
        incarnation: &Incarnation,
        events: mpsc::Sender<MemberEvent>,
        random: Random,
    ) -> Self {
        let selector = escape(&format!("{}={}", owned::MANAGED_BY, incarnation.short()));
        Self {
            api,
            kinds,
            selector,
            events,
            random,
            running: BTreeMap::new(),
        }
    }

    /// Starts and stops watches so that exactly these kinds are watched, up to the limit; whatever is beyond it is
    /// still read again from time to time.
    pub fn keep(&mut self, wanted: &BTreeSet<Watched>) {
        self.running.retain(|kind, task| {
            let keep = wanted.contains(kind) && !task.is_finished();
            if !keep {
                task.abort();
            }
            keep
        });
        for kind in wanted {
            if self.running.contains_key(kind) || self.running.len() >= WATCHES_MAX {
                continue;
            }
            let watch = Watch {
                api: self.api.clone(),
                kinds: self.kinds.clone(),
                kind: kind.clone(),
                selector: self.selector.clone(),
                events: self.events.clone(),
                random: self.random.clone(),
            };
            self.running.insert(kind.clone(), spawn_local(watch.run()));
        }
    }

    /// Kinds watched now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.running.len()
    }

    /// Whether no kind is watched.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.running.is_empty()
    }
}

impl Drop for Watches {
    fn drop(&mut self) {
        self.running.values().for_each(JoinHandle::abort);
    }
}

/// Why a watch ended.
enum Ended {
    /// The loop is gone.
    Closed,
    /// The place in the stream is lost, or the kind is not there: list again.
    Lost(String),
}

impl From<ApiError> for Ended {
    fn from(e: ApiError) -> Self {
        Self::Lost(e.message)
    }
}

struct Watch {
    api: Api,
    kinds: Rc<Kinds>,
    kind: Watched,
    selector: String,
    events: mpsc::Sender<MemberEvent>,
    random: Random,
}

impl Watch {
    async fn run(self) {
        let mut failures = 0_u32;
        loop {
            let begun = Instant::now();
            match self.follow().await {
                Ended::Closed => return,
                Ended::Lost(why) => tracing::debug!(kind = %self.kind.1, %why, "watch starts again"),
            }
            // A list that works says nothing of the watch: only one that lasted starts the pauses anew.
            failures = if begun.elapsed() >= WATCH_CEILING {
                1
            } else {
                failures.saturating_add(1)
            };
            if failures > 1 {
                // The kind may have moved or gone; ask discovery again.
                self.kinds.forget(&self.kind.0);
            }
            let millis = |d: Duration| Millis(u64::try_from(d.as_millis()).unwrap_or(u64::MAX));
            let pause = backoff(
                failures,
                millis(WATCH_FIRST),
                millis(WATCH_CEILING),
                self.random.number(),
            );
            sleep(Duration::from_millis(pause.0)).await;
        }
    }

    /// Lists, then watches from there for as long as the place in the stream holds.
    async fn follow(&self) -> Ended {
        let resource = match self.kinds.find(&self.api, &self.kind.0, &self.kind.1).await {
            Ok(resource) => resource,
            Err(e) => return e.into(),
        };
        let mut version = match self.list(&resource).await {
            Ok(version) => version,
            Err(ended) => return ended,
        };
        loop {
            version = match self.watch(&resource, version).await {
                Ok(version) => version,
                Err(ended) => return ended,
            };
        }
    }

    async fn list(&self, resource: &Resource) -> Result<String, Ended> {
        let query = format!("labelSelector={}&limit={PAGE}", self.selector);
        let mut present = BTreeSet::new();
        let mut next: Option<String> = None;
        let version = loop {
            let page = self
                .api
                .page::<Item>(&resource.path(""), &query, next.as_deref(), Some(LIST_METADATA))
                .await?;
            for item in page.items {
                present.insert((item.metadata.namespace.clone(), item.metadata.name.clone()));
                self.tell(item, true).await?;
            }
            next = page.metadata.next.filter(|n| !n.is_empty());
            if next.is_none() {
                break page.metadata.resource_version;
            }
        };
        let (group, _) = split_api_version(&self.kind.0);
        let listed = MemberEvent::Listed {
            group: group.to_owned(),
            kind: self.kind.1.clone(),
            present,
        };
        self.events.send(listed).await.map_err(|_| Ended::Closed)?;
        Ok(version)
    }

    /// One watch request to its end; gives the version to go on from.
    async fn watch(&self, resource: &Resource, mut version: String) -> Result<String, Ended> {
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={WATCH_SECONDS}&labelSelector={}&resourceVersion={}",
            resource.path(""),
            self.selector,
            escape(&version)
        );
        let request = Request::get(path)
            .header(header::ACCEPT, WATCH_METADATA)
            .body(Vec::new())
            .map_err(|e| Ended::Lost(e.to_string()))?;
        let lost = |e: kube::Error| Ended::Lost(ApiError::of_client(&e).message);
        let stream = self
            .api
            .client()
            .request_events::<Item>(request)
            .await
            .map_err(lost)?;
        let mut stream = std::pin::pin!(stream);
        loop {
            let event = timeout(WATCH_SILENCE, stream.try_next())
                .await
                .map_err(|_| Ended::Lost("the watch said nothing for too long".to_owned()))?
                .map_err(lost)?;
            match event {
                None => return Ok(version),
                Some(WatchEvent::Added(item) | WatchEvent::Modified(item)) => {
                    version.clone_from(&item.metadata.resource_version);
                    self.tell(item, true).await?;
                }
                Some(WatchEvent::Deleted(item)) => {
                    version.clone_from(&item.metadata.resource_version);
                    self.tell(item, false).await?;
                }
                Some(WatchEvent::Bookmark(mark)) => version = mark.metadata.resource_version,
                Some(WatchEvent::Error(status)) => return Err(Ended::Lost(status.message.clone())),
            }
        }
    }

    async fn tell(&self, item: Item, present: bool) -> Result<(), Ended> {
        let (group, _) = split_api_version(&self.kind.0);
        let key = ObjectKey::new(group, &self.kind.1, &item.metadata.namespace, &item.metadata.name);
        let resource_version = present.then_some(item.metadata.resource_version);
        self.events
            .send(MemberEvent::Changed {
                key,
                resource_version,
            })
            .await
            .map_err(|_| Ended::Closed)
    }
}
