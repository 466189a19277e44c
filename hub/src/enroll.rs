//! Enrolment: join tokens, the join itself, and the Cluster object that stands for it.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::{SecureRandom, SystemRandom};
use serde_json::{Value, json};
use shared::ids::{ClusterName, Digest, FleetId, Incarnation, PublicKey};
use shared::join::{JoinLine, JoinLineError, Token as JoinToken};
use shared::keys::{HubKeys, KeyError, Receipt, RootPin, SignedReceipt};
use shared::reason::Reason;
use shared::time::UnixSeconds;
use shared::wire::Join;

use crate::store::fleet::{EnrolRefusal, EnrolRequest, Enrolment, Terms, Token};
use crate::store::{CommitError, Expect, Op, ResourceId, Store, StoreError};
use crate::{crash, limits};

/// Random bytes in a join token.
const TOKEN_BYTES: usize = 24;

/// Why no token was made.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// The token could expire too late, or never be used.
    #[error("a token lives between 1 second and 30 days, not {0} seconds")]
    Life(i64),
    /// More labels than a receipt carries.
    #[error("a cluster has at most {max} labels from its token, not {0}", max = shared::limits::CLUSTER_LABELS_MAX)]
    TooManyLabels(usize),
    /// A label that Kubernetes would refuse.
    #[error("{0:?} is not a valid label (key[=value], letters, digits, '-', '_', '.')")]
    Label(String),
    /// The address in the join line.
    #[error(transparent)]
    Line(#[from] JoinLineError),
    /// The system gives no random numbers.
    #[error("the system's random source failed")]
    NoRandomness,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// What is asked for.
#[derive(Debug, Clone)]
pub struct TokenRequest {
    /// The one cluster that may join with it.
    pub cluster: ClusterName,
    /// Passed on to the cluster.
    pub terms: Terms,
    /// Seconds until it expires.
    pub life_seconds: i64,
    /// `HOST:PORT` of the hub, as the agent reaches it.
    pub hub: String,
    /// What the agent pins.
    pub root: RootPin,
}

/// Makes a token for one cluster and returns the line to run there, and when it expires. Only the token's hash is
/// kept.
///
/// # Errors
/// [`TokenError`].
pub async fn create_token(
    store: &Store,
    random: &SystemRandom,
    request: TokenRequest,
    now: UnixSeconds,
) -> Result<(JoinLine, UnixSeconds), TokenError> {
    let TokenRequest {
        cluster,
        terms,
        life_seconds,
        hub,
        root,
    } = request;
    if !(1..=limits::TOKEN_SECONDS).contains(&life_seconds) {
        return Err(TokenError::Life(life_seconds));
    }
    check_labels(&terms.labels)?;
    shared::join::check_address(&hub)?;
    let mut bytes = [0; TOKEN_BYTES];
    random.fill(&mut bytes).map_err(|_| TokenError::NoRandomness)?;
    let text = token_text(bytes);
    let expires = now.plus(life_seconds);
    let line = JoinLine {
        hub,
        cluster: cluster.clone(),
        root,
        token: JoinToken::new(&text)?,
    };
    let token = Token {
        digest: Digest::of(text.as_bytes()),
        cluster,
        expires,
        terms,
        used_by: None,
    };
    store.create_token(token, now).await?;
    Ok((line, expires))
}

/// A token stands behind `--token` in the join line, where a leading `-` would make it an option.
fn token_text(bytes: [u8; TOKEN_BYTES]) -> String {
    let mut text = URL_SAFE_NO_PAD.encode(bytes);
    if text.starts_with('-') {
        text.replace_range(..1, "A");
    }
    text
}

fn check_labels(labels: &BTreeMap<String, String>) -> Result<(), TokenError> {
    if labels.len() > shared::limits::CLUSTER_LABELS_MAX {
        return Err(TokenError::TooManyLabels(labels.len()));
    }
    let name = |text: &str| {
        text.len() <= 63
            && text
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"-_.".contains(&b))
            && text.bytes().next().is_none_or(|b| b.is_ascii_alphanumeric())
            && text.bytes().next_back().is_none_or(|b| b.is_ascii_alphanumeric())
    };
    for (key, value) in labels {
        let (prefix, short) = key
            .split_once('/')
            .map_or((None, key.as_str()), |(p, k)| (Some(p), k));
        let key_ok =
            !short.is_empty() && name(short) && prefix.is_none_or(|p| !p.is_empty() && p.len() <= 253);
        if !key_ok || !name(value) {
            return Err(TokenError::Label(format!("{key}={value}")));
        }
    }
    Ok(())
}

/// What a join is answered.
#[derive(Debug)]
pub(crate) enum Joined {
    /// Enrolled; the receipt is signed.
    Receipt(Box<SignedReceipt>),
    /// Not enrolled.
    Refused(Reason, String),
}

/// Enrols the agent that proved `identity`, makes its Cluster object, and signs the receipt. Repeating it with the
/// same token and key gives the same answer.
///
/// # Errors
/// The store; then the agent is not answered and repeats.
pub(crate) async fn join(
    store: &Store,
    keys: &HubKeys,
    random: &SystemRandom,
    cluster: ClusterName,
    identity: PublicKey,
    join: Join,
    now: UnixSeconds,
) -> Result<Joined, JoinError> {
    let mut fresh = [0; 16];
    random.fill(&mut fresh).map_err(|_| JoinError::NoRandomness)?;
    let request = EnrolRequest {
        token: Digest::of(join.token.as_bytes()),
        cluster,
        identity,
        kube_system_uid: join.kube_system_uid,
        incarnation: Incarnation(fresh),
        now,
    };
    let enrolment = match store.enrol(request).await? {
        Ok(enrolment) => enrolment,
        Err(refusal) => return Ok(Joined::Refused(refusal_reason(&refusal), refusal.to_string())),
    };
    crash::point("join.recorded");
    ensure_cluster(store, random, &enrolment, now).await?;
    store
        .update_facts(&enrolment.cluster, Some(now), move |facts| {
            facts.agent_version = join.agent_version
        })
        .await?;
    Ok(Joined::Receipt(Box::new(
        receipt(&enrolment, keys.fleet()).sign(keys),
    )))
}

/// What keeps a join from an answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum JoinError {
    /// The system gives no random numbers.
    #[error("the system's random source failed")]
    NoRandomness,
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The Cluster object.
    #[error(transparent)]
    Commit(#[from] CommitError),
    /// The Cluster object is changed by others all the time.
    #[error("the Cluster object changes too often to be written")]
    Busy,
    /// The shown receipt.
    #[error(transparent)]
    Receipt(#[from] KeyError),
}

fn refusal_reason(refusal: &EnrolRefusal) -> Reason {
    match refusal {
        EnrolRefusal::TokenUnknown
        | EnrolRefusal::TokenExpired
        | EnrolRefusal::TokenOfOther(_)
        | EnrolRefusal::TokenUsed => Reason::TokenRefused,
        EnrolRefusal::NameTaken(_) | EnrolRefusal::OtherCluster { .. } => Reason::NameTaken,
        EnrolRefusal::Revoked(_) => Reason::Revoked,
        EnrolRefusal::MemberElsewhere(_) => Reason::MemberTaken,
    }
}

fn receipt(enrolment: &Enrolment, fleet: FleetId) -> Receipt {
    let terms = enrolment.terms.clone();
    Receipt {
        fleet,
        cluster: enrolment.cluster.clone(),
        incarnation: enrolment.incarnation,
        identity: enrolment.identity,
        kube_system_uid: enrolment.kube_system_uid.clone(),
        labels: terms.labels,
        provider: terms.provider,
        region: terms.region,
        zones: terms.zones,
    }
}

/// Whether this hub, or an earlier life of it, enrolled this identity under this name.
pub(crate) fn vouches(
    keys: &HubKeys,
    cluster: &ClusterName,
    identity: PublicKey,
    shown: &SignedReceipt,
) -> bool {
    let receipt = &shown.receipt;
    shown.verify(&keys.ring()).is_ok() && receipt.cluster == *cluster && receipt.identity == identity
}

/// Takes back an agent that this hub once enrolled and no longer knows (it was restored from an older state), where nobody
/// else has the name or the enrolment of who has it was opened for a successor. `None`: it is not so, or the receipt is
/// not ours or not this agent's.
///
/// # Errors
/// The store.
pub(crate) async fn recall(
    store: &Store,
    keys: &HubKeys,
    random: &SystemRandom,
    cluster: &ClusterName,
    identity: PublicKey,
    shown: &SignedReceipt,
    now: UnixSeconds,
) -> Result<Option<Enrolment>, JoinError> {
    let receipt = &shown.receipt;
    if !vouches(keys, cluster, identity, shown) {
        return Ok(None);
    }
    let terms = Terms {
        labels: receipt.labels.clone(),
        provider: receipt.provider.clone(),
        region: receipt.region.clone(),
        zones: receipt.zones.clone(),
    };
    let recalled = store.recall_enrolment(receipt.clone(), terms, now).await?;
    if let Some(enrolment) = &recalled {
        ensure_cluster(store, random, enrolment, now).await?;
    }
    Ok(recalled.filter(|enrolment| enrolment.identity == identity && !enrolment.revoked))
}

/// Makes the Cluster object of an enrolment. One that is there stays; only which member it stands for, and what the token
/// says of it, is brought up to date.
///
/// # Errors
/// The store.
pub(crate) async fn ensure_cluster(
    store: &Store,
    random: &SystemRandom,
    enrolment: &Enrolment,
    now: UnixSeconds,
) -> Result<(), JoinError> {
    let resource = ResourceId::new("cluster.karmada.io", "clusters");
    let name = enrolment.cluster.as_str().to_owned();
    for _ in 0..limits::CLUSTER_WRITES {
        let (expect, object) = match store.get(&resource, "", &name) {
            Some(stored) => match renewed(stored.value(), enrolment) {
                Some(object) => (Expect::Revision(stored.revision), object),
                None => return Ok(()),
            },
            None => (Expect::Absent, cluster_object(enrolment, &new_uid(random)?, now)),
        };
        let put = Op::Put {
            resource: resource.clone(),
            namespace: String::new(),
            name: name.clone(),
            expect,
            object,
        };
        match store.commit(vec![put]).await {
            // Somebody was faster: look again.
            Err(
                CommitError::AlreadyExists { .. }
                | CommitError::Conflict { .. }
                | CommitError::NotFound { .. },
            ) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(()),
        }
    }
    // The agent is not answered and repeats.
    Err(JoinError::Busy)
}

/// The Cluster object of a name that another member has taken; none: it stands for this one already.
fn renewed(mut object: Value, enrolment: &Enrolment) -> Option<Value> {
    if object["spec"]["id"] == enrolment.kube_system_uid.as_str() {
        return None;
    }
    let fresh = cluster_object(enrolment, "", UnixSeconds(0));
    let merge = |into: &mut Value, from: &Value| {
        for (key, value) in from.as_object().into_iter().flatten() {
            into[key.as_str()] = value.clone();
        }
    };
    merge(&mut object["spec"], &fresh["spec"]);
    merge(&mut object["metadata"]["labels"], &fresh["metadata"]["labels"]);
    if object["metadata"]["labels"].is_null()
        && let Some(metadata) = object["metadata"].as_object_mut()
    {
        metadata.remove("labels");
    }
    let generation = object["metadata"]["generation"].as_i64().unwrap_or(0) + 1;
    object["metadata"]["generation"] = json!(generation);
    Some(object)
}

fn cluster_object(enrolment: &Enrolment, uid: &str, now: UnixSeconds) -> Value {
    let terms = &enrolment.terms;
    let mut spec = json!({"syncMode": "Pull", "id": enrolment.kube_system_uid});
    for (field, value) in [("provider", &terms.provider), ("region", &terms.region)] {
        if !value.is_empty() {
            spec[field] = json!(value);
        }
    }
    if !terms.zones.is_empty() {
        spec["zones"] = json!(terms.zones);
    }
    let mut metadata = json!({
        "name": enrolment.cluster.as_str(),
        "uid": uid,
        "creationTimestamp": now.rfc3339(),
        "generation": 1,
    });
    if !terms.labels.is_empty() {
        metadata["labels"] = json!(terms.labels);
    }
    json!({"apiVersion": "cluster.karmada.io/v1alpha1", "kind": "Cluster", "metadata": metadata, "spec": spec})
}

/// A random UUID (version 4).
fn new_uid(random: &SystemRandom) -> Result<String, JoinError> {
    let mut b = [0; 16];
    random.fill(&mut b).map_err(|_| JoinError::NoRandomness)?;
    Ok(hub_core::uuid::random(b))
}

#[cfg(test)]
mod tests {
    use shared::ids::KeyNumber;
    use shared::keys::{KeyStatement, SigningKey};

    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    struct World {
        store: Store,
        keys: HubKeys,
        random: SystemRandom,
        _dir: tempfile::TempDir,
    }

    fn world() -> World {
        let dir = tempfile::tempdir().unwrap();
        Store::create(dir.path()).unwrap();
        let store = Store::open(dir.path(), NOW).unwrap();
        let random = SystemRandom::new();
        let (root, _) = SigningKey::generate(&random).unwrap();
        let (signer, _) = SigningKey::generate(&random).unwrap();
        let statement = KeyStatement::issue(&root, store.fleet(), KeyNumber(1), signer.public());
        let keys = HubKeys::new(root.public(), statement, signer).unwrap();
        World {
            store,
            keys,
            random,
            _dir: dir,
        }
    }

    fn shop() -> ClusterName {
        ClusterName::new("shop").unwrap()
    }

    impl World {
        async fn token(&self, life: i64) -> Result<JoinLine, TokenError> {
            let terms = Terms {
                labels: [("env".to_owned(), "prod".to_owned())].into(),
                provider: "acme".to_owned(),
                region: "eu".to_owned(),
                zones: vec!["eu-1".to_owned()],
            };
            let root = RootPin::of(&self.keys.root);
            let request = TokenRequest {
                cluster: shop(),
                terms,
                life_seconds: life,
                hub: "h:1".to_owned(),
                root,
            };
            create_token(&self.store, &self.random, request, NOW)
                .await
                .map(|(line, _)| line)
        }

        async fn join(&self, token: &str, identity: u8, uid: &str, now: UnixSeconds) -> Joined {
            let request = Join {
                token: token.to_owned(),
                kube_system_uid: uid.to_owned(),
                agent_version: "0.1.0".to_owned(),
            };
            let identity = PublicKey([identity; 32]);
            join(
                &self.store,
                &self.keys,
                &self.random,
                shop(),
                identity,
                request,
                now,
            )
            .await
            .unwrap()
        }
    }

    fn refused(joined: Joined) -> Reason {
        match joined {
            Joined::Refused(reason, _) => reason,
            Joined::Receipt(receipt) => panic!("enrolled: {receipt:?}"),
        }
    }

    #[tokio::test]
    async fn a_join_makes_a_cluster_and_may_be_repeated_by_the_same_key_only() {
        let world = world();
        let token = world.token(60).await.unwrap();
        let secret = token.token.expose();
        assert_eq!(
            refused(world.join("wrong", 1, "u", NOW).await),
            Reason::TokenRefused
        );
        assert_eq!(
            refused(world.join(secret, 1, "u", NOW.plus(61)).await),
            Reason::TokenRefused
        );
        let Joined::Receipt(first) = world.join(secret, 1, "u", NOW).await else {
            panic!()
        };
        let Joined::Receipt(again) = world.join(secret, 1, "u", NOW.plus(30)).await else {
            panic!()
        };
        assert_eq!(first, again);
        assert_eq!(
            refused(world.join(secret, 2, "u", NOW).await),
            Reason::TokenRefused
        );
        first.verify(&world.keys.ring()).unwrap();

        let resource = ResourceId::new("cluster.karmada.io", "clusters");
        let cluster = world.store.get(&resource, "", "shop").unwrap().value();
        assert_eq!(cluster["spec"]["syncMode"], "Pull");
        assert_eq!(cluster["spec"]["provider"], "acme");
        assert_eq!(cluster["spec"]["zones"], json!(["eu-1"]));
        assert_eq!(cluster["metadata"]["labels"]["env"], "prod");
        assert_eq!(cluster["metadata"]["uid"].as_str().unwrap().len(), 36);

        let second = world.token(60).await.unwrap();
        assert_eq!(
            refused(world.join(second.token.expose(), 3, "other", NOW).await),
            Reason::NameTaken
        );
    }

    #[test]
    fn no_token_looks_like_an_option() {
        for first in 0..=255 {
            let mut bytes = [0xfb; TOKEN_BYTES];
            bytes[0] = first;
            let text = token_text(bytes);
            assert!(!text.starts_with('-'), "{text}");
            assert!(JoinToken::new(&text).is_ok(), "{text}");
        }
    }

    #[tokio::test]
    async fn tokens_that_make_no_sense_are_refused() {
        let world = world();
        for life in [0, -1, limits::TOKEN_SECONDS + 1] {
            assert!(matches!(world.token(life).await, Err(TokenError::Life(_))));
        }
        for (key, value) in [("", "a"), ("a b", "c"), ("a", "b c"), ("-a", "b"), ("/a", "b")] {
            assert!(
                check_labels(&[(key.to_owned(), value.to_owned())].into()).is_err(),
                "{key}={value}"
            );
        }
        assert!(check_labels(&[("example.com/tier".to_owned(), String::new())].into()).is_ok());
    }

    #[tokio::test]
    async fn a_forgotten_cluster_is_recalled_by_its_own_receipt_only() {
        let (old, new) = (world(), world());
        let token = old.token(60).await.unwrap();
        let Joined::Receipt(receipt) = old.join(token.token.expose(), 1, "u", NOW).await else {
            panic!()
        };
        let recall = |keys, identity, shown| {
            let store = &new.store;
            let random = &new.random;
            async move {
                recall(
                    store,
                    keys,
                    random,
                    &shop(),
                    PublicKey([identity; 32]),
                    shown,
                    NOW,
                )
                .await
                .unwrap()
            }
        };
        assert!(
            recall(&new.keys, 1, &receipt).await.is_none(),
            "another hub's receipt"
        );
        assert!(
            recall(&old.keys, 2, &receipt).await.is_none(),
            "another agent's receipt"
        );
        let recalled = recall(&old.keys, 1, &receipt).await.unwrap();
        assert_eq!(recalled.incarnation, receipt.receipt.incarnation);
        assert!(
            new.store
                .get(&ResourceId::new("cluster.karmada.io", "clusters"), "", "shop")
                .is_some()
        );
    }
}
