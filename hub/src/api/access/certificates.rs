//! Certificate signing requests: who made them is written down, approved ones for clients of the API are signed.

use super::super::source::Served;
use super::super::{Api, limits};
use super::users;
use crate::clock;
use crate::store::{CommitError, Expect, Object, Op, ResourceId};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use hub_core::access::{Attributes, MASTERS, User};
use hub_core::admission;
use hub_core::status_error::{Cause, StatusError};
use hub_core::timestamp;
use serde_json::{Value, json};

const GROUP: &str = "certificates.k8s.io";
/// The signer that the hub is.
const CLIENT_SIGNER: &str = "kubernetes.io/kube-apiserver-client";
/// Uses a client certificate may have.
const USAGES: [&str; 3] = ["digital signature", "key encipherment", "client auth"];

/// Whether a resource is that of signing requests.
pub(in crate::api) fn is_request(served: &Served) -> bool {
    &*served.resource.group == GROUP
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

fn usages(object: &Value) -> Vec<&str> {
    let list = object
        .pointer("/spec/usages")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    list.filter_map(Value::as_str).collect()
}

/// PEM text of the request.
fn request_text(object: &Value) -> Option<String> {
    String::from_utf8(BASE64.decode(text(object, "/spec/request")).ok()?).ok()
}

fn condition(object: &Value, kind: &str) -> bool {
    let list = object.pointer("/status/conditions").and_then(Value::as_array);
    list.into_iter()
        .flatten()
        .any(|c| c.get("type").and_then(Value::as_str) == Some(kind))
}

impl Api {
    /// Checks a new signing request and writes down who made it.
    ///
    /// # Errors
    /// 422 for a request that cannot be signed by anybody.
    pub(in crate::api) fn admit_request(
        &self,
        served: &Served,
        user: &User,
        object: &mut Value,
    ) -> Result<(), StatusError> {
        if !is_request(served) {
            return Ok(());
        }
        let mut causes = Vec::new();
        let readable = request_text(object).ok_or_else(|| "it is not base64 of PEM".to_owned());
        let readable = readable.and_then(|pem| {
            self.access
                .authority()
                .read_request(&pem)
                .map_err(|error| error.to_string())
        });
        if let Err(why) = readable {
            let cut: String = text(object, "/spec/request").chars().take(40).collect();
            causes.push(Cause::invalid("spec.request", &json!(cut), why));
        }
        let signer = text(object, "/spec/signerName");
        if signer.is_empty() {
            causes.push(Cause::required("spec.signerName", ""));
        } else if !signer
            .split_once('/')
            .is_some_and(|(domain, path)| domain.contains('.') && !path.is_empty())
        {
            let why = "must be a fully qualified domain and path of the form 'example.com/signer-name'";
            causes.push(Cause::invalid("spec.signerName", &json!(signer), why));
        }
        if usages(object).is_empty() {
            causes.push(Cause::required("spec.usages", ""));
        }
        let seconds = object.pointer("/spec/expirationSeconds").and_then(Value::as_i64);
        if let Some(seconds) = seconds.filter(|s| *s < limits::USER_SECONDS_MIN) {
            let why = "may not specify a duration less than 600 seconds (10 minutes)";
            causes.push(Cause::invalid("spec.expirationSeconds", &json!(seconds), why));
        }
        if !causes.is_empty() {
            let kind = &served.resource.kind;
            return Err(StatusError::invalid(
                GROUP,
                kind,
                admission::name_of(object),
                causes,
            ));
        }
        let spec = &mut object["spec"];
        spec["username"] = json!(user.name);
        for (key, value) in [
            ("uid", (!user.uid.is_empty()).then(|| json!(user.uid))),
            ("groups", (!user.groups.is_empty()).then(|| json!(user.groups))),
            ("extra", (!user.extra.is_empty()).then(|| json!(user.extra))),
        ] {
            match (value, spec.as_object_mut()) {
                (Some(value), Some(spec)) => drop(spec.insert(key.to_owned(), value)),
                (None, Some(spec)) => drop(spec.remove(key)),
                (_, None) => {}
            }
        }
        Ok(())
    }

    /// Approving takes a permission on the signer.
    ///
    /// # Errors
    /// 403.
    pub(in crate::api) fn check_approval(
        &self,
        served: &Served,
        user: &User,
        old: &Value,
    ) -> Result<(), StatusError> {
        let signer = text(old, "/spec/signerName");
        let domain = signer.split_once('/').map_or(signer, |(domain, _)| domain);
        let may = |name: &str| {
            let wish = Attributes::resource("approve", GROUP, "signers", "", name);
            self.access.decide(user, &wish).allowed
        };
        if may(signer) || may(&format!("{domain}/*")) {
            return Ok(());
        }
        let why = format!("user not permitted to approve requests with signerName {signer:?}");
        let name = admission::name_of(old);
        Err(StatusError::forbidden(GROUP, &served.resource.plural, name, why))
    }

    /// Signs every approved request that waits for this hub, and removes old ones.
    pub(in crate::api) async fn sign_waiting(&self) -> Result<(), CommitError> {
        let id = ResourceId::new(GROUP, "certificatesigningrequests");
        for object in self.store.list(&id, None).items {
            self.sign_one(&object).await?;
            if is_old(&object.value(), clock::wall().0) {
                let op = Op::Delete {
                    resource: id.clone(),
                    namespace: String::new(),
                    name: object.name.clone(),
                    expect: Expect::Revision(object.revision),
                };
                settle(self.store.commit(vec![op]).await)?;
            }
        }
        Ok(())
    }

    /// Signs a request if it is approved and for this hub; says in its status why it cannot.
    pub(in crate::api) async fn sign_one(&self, stored: &Object) -> Result<(), CommitError> {
        let mut object = stored.value();
        let waits = text(&object, "/spec/signerName") == CLIENT_SIGNER
            && condition(&object, "Approved")
            && !condition(&object, "Denied")
            && !condition(&object, "Failed")
            && text(&object, "/status/certificate").is_empty();
        if !waits {
            return Ok(());
        }
        match self.signed(&object).await {
            Ok(certificate) => object["status"]["certificate"] = json!(BASE64.encode(certificate)),
            Err(why) => {
                let now = timestamp::format(clock::wall().0);
                let failed = json!({"type": "Failed", "status": "True", "reason": "SignerValidationFailure",
                    "message": why, "lastUpdateTime": now, "lastTransitionTime": now});
                if let Some(conditions) = object["status"]["conditions"].as_array_mut() {
                    conditions.push(failed);
                }
            }
        }
        let op = Op::Put {
            resource: stored.resource.clone(),
            namespace: String::new(),
            name: stored.name.clone(),
            expect: Expect::Revision(stored.revision),
            object,
        };
        settle(self.store.commit(vec![op]).await)
    }

    async fn signed(&self, object: &Value) -> Result<String, String> {
        let pem = request_text(object).ok_or("the request is not base64 of PEM")?;
        let authority = self.access.authority();
        let request = authority.read_request(&pem).map_err(|error| error.to_string())?;
        if request.groups.iter().any(|g| g == MASTERS) {
            return Err(format!(
                "a client certificate for the group {MASTERS} is not signed"
            ));
        }
        let usages = usages(object);
        if !usages.contains(&"client auth") || usages.iter().any(|u| !USAGES.contains(u)) {
            return Err(format!(
                "usages must include \"client auth\" and be among {USAGES:?}"
            ));
        }
        let now = clock::wall();
        let seconds = object
            .pointer("/spec/expirationSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(limits::USER_SECONDS);
        let until = now.plus(seconds.clamp(limits::USER_SECONDS_MIN, limits::USER_SECONDS_MAX));
        let signed = authority
            .sign(&request, now, until)
            .map_err(|error| error.to_string())?;
        let by = format!("CertificateSigningRequest {}", admission::name_of(object));
        users::note(&self.store, &request.user, &request.groups, &signed, &by, until)
            .await
            .map_err(|error| error.to_string())?;
        Ok(signed.certificate)
    }
}

/// Answered requests are kept for an hour, waiting ones for a day (as Kubernetes does).
fn is_old(object: &Value, now: i64) -> bool {
    let Some(made) = timestamp::parse(text(object, "/metadata/creationTimestamp")) else {
        return false;
    };
    let is_answered = ["Approved", "Denied", "Failed"]
        .iter()
        .any(|kind| condition(object, kind));
    let life = if is_answered {
        limits::ANSWERED_REQUEST_SECONDS
    } else {
        limits::WAITING_REQUEST_SECONDS
    };
    now - made > life
}

/// Another writer may have been faster: the next look has the newer state.
fn settle<T>(outcome: Result<T, CommitError>) -> Result<(), CommitError> {
    match outcome {
        Ok(_) | Err(CommitError::Conflict { .. } | CommitError::NotFound { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}
