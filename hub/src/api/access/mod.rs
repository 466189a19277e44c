//! Who is asking, and whether they may: proofs of identity, impersonation, roles. Decisions are `hub-core`'s; this
//! module keeps the index of roles as fresh as the store and looks up what a proof depends on.

mod bootstrap;
mod certificates;
mod guarded;
mod roles;
mod tokens;
mod users;
mod wish;

pub use users::{UserError, Users};

pub(super) use guarded::Guard;
pub(super) use wish::wish;

use super::websocket;
use crate::clock;
use crate::keys::Authority;
use crate::store::{Object, ResourceId, Revision, Store};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use hub_core::access::impersonation::Wanted;
use hub_core::access::token::{Claims, TokenError};
use hub_core::access::{AUTHENTICATED, Allowed, Attributes, Decision, RBAC_GROUP, Rbac, User};
use hub_core::status_error::{Reason, StatusError};
use std::sync::{Arc, RwLock, RwLockReadGuard};
use tokio::sync::watch;

/// The kinds that roles and bindings are made of.
const RBAC_KINDS: [&str; 4] = ["roles", "clusterroles", "rolebindings", "clusterrolebindings"];

/// What the client certificate of a connection says; the chain was verified during the handshake.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    /// `CN`.
    pub user: String,
    /// Every `O`.
    pub groups: Vec<String>,
    /// SHA-256 of the certificate, in hex; empty only where no certificate stands behind it (tests).
    pub fingerprint: String,
}

/// How a client proved who it is.
#[derive(Debug, Clone)]
enum Proof {
    Certificate(Identity),
    Token(Box<Claims>),
}

/// A client whose request was let through.
#[derive(Debug, Clone)]
pub(super) struct Caller {
    /// As whom it acts.
    pub(super) user: User,
    /// Who proved to be there, if it acts as somebody else.
    pub(super) real: Option<User>,
    /// Which binding let it through.
    pub(super) reason: String,
    proof: Proof,
}

/// A request that was not let through, and who made it as far as that is known.
#[derive(Debug)]
pub(super) struct Refused {
    /// Who proved to be there.
    pub(super) user: Option<User>,
    /// As whom they wanted to act.
    pub(super) impersonated: Option<User>,
    /// The answer.
    pub(super) error: StatusError,
}

/// Proofs, roles and what they lead to.
pub(super) struct Access {
    store: Store,
    authority: Arc<Authority>,
    /// Roles as of a revision.
    rbac: RwLock<(Revision, Rbac)>,
    /// Moves when somebody may have lost what they had.
    moved: watch::Sender<u64>,
}

fn rbac_ids() -> Vec<ResourceId> {
    RBAC_KINDS
        .iter()
        .map(|kind| ResourceId::new(RBAC_GROUP, kind))
        .collect()
}

fn account_id() -> ResourceId {
    ResourceId::new("", "serviceaccounts")
}

/// 401 with the cause, which clients print.
fn unauthorized(why: impl std::fmt::Display) -> StatusError {
    StatusError::new(Reason::Unauthorized, format!("Unauthorized: {why}"))
}

impl Access {
    pub(super) fn new(store: Store, authority: Arc<Authority>) -> Access {
        Access {
            store,
            authority,
            rbac: RwLock::new((Revision(0), Rbac::default())),
            moved: watch::Sender::new(0),
        }
    }

    pub(super) fn authority(&self) -> &Authority {
        &self.authority
    }

    /// The roles as they are stored now: what a client has written counts for its next request.
    fn rbac(&self) -> RwLockReadGuard<'_, (Revision, Rbac)> {
        let now = self.store.revision();
        {
            let current = self
                .rbac
                .read()
                .unwrap_or_else(std::sync::PoisonError::into_inner);
            if current.0 >= now && current.0 > Revision(0) {
                return current;
            }
        }
        let mut current = self
            .rbac
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        let changes = if current.0 == Revision(0) {
            None
        } else {
            self.store.changes_after(&rbac_ids(), false, current.0).ok()
        };
        match changes {
            Some(changes) => {
                for event in &changes.events {
                    let is_put = event.kind == crate::store::EventKind::Put;
                    set(&mut current.1, &event.object, is_put);
                }
                current.0 = changes.upto;
            }
            None => {
                let mut rbac = Rbac::default();
                let listings = self.store.list_many(&rbac_ids());
                let revision = listings.first().map_or(now, |l| l.revision);
                for object in listings.iter().flat_map(|l| &l.items) {
                    set(&mut rbac, object, true);
                }
                *current = (revision, rbac);
            }
        }
        drop(current);
        self.rbac
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Whether a user may do it.
    pub(super) fn decide(&self, user: &User, wish: &Attributes) -> Decision {
        self.rbac().1.decide(user, wish)
    }

    /// Lets a request through, or says why not.
    ///
    /// # Errors
    /// 401 without a valid proof, 403 without permission, 400 for impersonation headers that contradict themselves.
    pub(super) fn admit(
        &self,
        identity: Option<&Identity>,
        headers: &HeaderMap,
        wish: &Attributes,
    ) -> Result<Caller, Refused> {
        let nobody = |error| Refused {
            user: None,
            impersonated: None,
            error,
        };
        let proof = self.proof(identity, headers).map_err(nobody)?;
        let real = self.believe(&proof).map_err(nobody)?;
        let refused = |impersonated: Option<&User>, error| Refused {
            user: Some(real.clone()),
            impersonated: impersonated.cloned(),
            error,
        };
        let pairs = headers
            .iter()
            .filter_map(|(n, v)| Some((n.as_str(), v.to_str().ok()?)));
        let wanted = Wanted::read(pairs).map_err(|error| refused(None, error))?;
        let acting = match wanted {
            None => None,
            Some(wanted) => {
                let needed = wanted.wishes();
                let acting = wanted.user();
                for needed in needed {
                    self.demand(&real, &needed)
                        .map_err(|error| refused(Some(&acting), error))?;
                }
                Some(acting)
            }
        };
        let reason = self
            .demand(acting.as_ref().unwrap_or(&real), wish)
            .map_err(|error| refused(acting.as_ref(), error))?;
        Ok(match acting {
            Some(user) => Caller {
                user,
                real: Some(real),
                reason,
                proof,
            },
            None => Caller {
                user: real,
                real: None,
                reason,
                proof,
            },
        })
    }

    /// 403 unless allowed; gives the reason.
    ///
    /// # Errors
    /// 403 in the words of the API server.
    pub(super) fn demand(&self, user: &User, wish: &Attributes) -> Result<String, StatusError> {
        let decision = self.decide(user, wish);
        if decision.allowed {
            return Ok(decision.reason);
        }
        let mut why = wish.refusal(user);
        if !decision.reason.is_empty() {
            why = format!("{why}: {}", decision.reason);
        }
        Err(match &wish.path {
            Some(_) => StatusError::new(Reason::Forbidden, format!("forbidden: {why}")).with_empty_details(),
            None => StatusError::forbidden(&wish.group, &wish.resource, &wish.name, why),
        })
    }

    /// Whether what a caller was let through with still holds, for requests that last.
    ///
    /// # Errors
    /// 401 or 403, as a new request would get.
    fn still(&self, caller: &Caller, wish: &Attributes) -> Result<(), StatusError> {
        self.believe(&caller.proof)?;
        self.demand(&caller.user, wish).map(drop)
    }

    fn proof(&self, identity: Option<&Identity>, headers: &HeaderMap) -> Result<Proof, StatusError> {
        if let Some(identity) = identity {
            return Ok(Proof::Certificate(identity.clone()));
        }
        let header = headers.get(AUTHORIZATION).and_then(|v| v.to_str().ok());
        let token = header
            .and_then(|h| h.split_once(' '))
            .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
            .map(|(_, token)| token.trim().to_owned())
            .or_else(|| websocket::bearer(headers))
            .ok_or_else(StatusError::unauthorized)?;
        let claims = self.authority.read_token(&token).map_err(unauthorized)?;
        Ok(Proof::Token(Box::new(claims)))
    }

    /// Who a proof is of, if it counts now.
    fn believe(&self, proof: &Proof) -> Result<User, StatusError> {
        match proof {
            Proof::Certificate(identity) => {
                users::check(&self.store, identity).map_err(unauthorized)?;
                let mut user = User {
                    name: identity.user.clone(),
                    groups: identity.groups.clone(),
                    ..User::default()
                };
                user.join(AUTHENTICATED);
                if !identity.fingerprint.is_empty() {
                    let id = format!("X509SHA256={}", identity.fingerprint);
                    user.extra
                        .insert(hub_core::access::token::CREDENTIAL_ID.to_owned(), vec![id]);
                }
                Ok(user)
            }
            Proof::Token(claims) => {
                self.check_claims(claims, &[]).map_err(unauthorized)?;
                Ok(claims.user())
            }
        }
    }

    /// Time, audience, account and bound object of a token.
    fn check_claims(&self, claims: &Claims, audiences: &[String]) -> Result<Vec<String>, TokenError> {
        let matching = claims.check(audiences, clock::wall().0)?;
        let gone = |what: &str, name: &str| TokenError::Gone(format!("{what} {}/{name}", claims.namespace));
        let is = |id: &ResourceId, name: &str, uid: &str| {
            let found = self.store.get(id, &claims.namespace, name);
            found.is_some_and(|object| object.uid == uid)
        };
        if !is(&account_id(), &claims.account, &claims.account_uid) {
            return Err(gone("ServiceAccount", &claims.account));
        }
        if let Some(bound) = &claims.bound {
            let plural = format!("{}s", bound.kind.to_lowercase());
            if !is(&ResourceId::new("", &plural), &bound.name, &bound.uid) {
                return Err(gone(&bound.kind, &bound.name));
            }
        }
        Ok(matching)
    }

    /// Who carries a token that counts for some audiences, and for which of them.
    ///
    /// # Errors
    /// It does not count.
    pub(super) fn review_token(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<(User, Vec<String>), TokenError> {
        let claims = self.authority.read_token(token)?;
        let matching = self.check_claims(&claims, audiences)?;
        Ok((claims.user(), matching))
    }

    /// Everything a user may do in a namespace.
    pub(super) fn rules_of(&self, user: &User, namespace: &str) -> Allowed {
        self.rbac().1.rules_of(user, namespace)
    }

    /// Watches for changes that may take something away, until the store is closed.
    pub(super) async fn run(&self) {
        let mut ids = rbac_ids();
        ids.extend([
            account_id(),
            users::id(),
            ResourceId::new("", "pods"),
            ResourceId::new("", "secrets"),
        ]);
        let mut arrivals = self.store.arrivals();
        let mut seen = self.store.revision();
        while arrivals.changed().await.is_ok() {
            let changed = match self.store.changes_after(&ids, false, seen) {
                Ok(changes) => {
                    seen = changes.upto;
                    // What is new takes nothing away.
                    changes
                        .events
                        .iter()
                        .any(|e| e.previous.is_some() || e.object.resource == users::id())
                }
                Err(_compacted) => {
                    seen = self.store.revision();
                    true
                }
            };
            if changed {
                self.moved.send_modify(|n| *n += 1);
            }
        }
    }
}

fn set(rbac: &mut Rbac, object: &Object, is_put: bool) {
    let value = is_put.then(|| object.value());
    rbac.set(
        &object.resource.resource,
        &object.namespace,
        &object.name,
        value.as_ref(),
    );
}
