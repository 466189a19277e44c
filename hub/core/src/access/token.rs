//! ServiceAccount tokens: what they say, how they are written (JWT), when they count. Keys and signatures are the
//! shell's (source: the token registry and authenticator of the Kubernetes API server).

use super::User;
use crate::limits::{MAX_TOKEN_BYTES, MAX_TOKEN_SECONDS};
use crate::status_error::{Cause, StatusError};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD as BASE64;
use serde_json::{Value, json};

/// Who issues the tokens, and whom they are for unless the request says otherwise.
pub const ISSUER: &str = "https://kubernetes.default.svc";
/// Life of a token that asks for none (seconds).
const DEFAULT_SECONDS: i64 = 3_600;
/// Shortest life that may be asked for (seconds).
const MIN_SECONDS: i64 = 600;
/// `extra` key under which a token is told apart from others.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The object that a token lives and dies with.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// `Pod` or `Secret`.
    pub kind: String,
    /// Name.
    pub name: String,
    /// uid.
    pub uid: String,
}

/// What a token says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    /// Whom it is for.
    pub audiences: Vec<String>,
    /// From when it counts, seconds since 1970.
    pub issued: i64,
    /// Until when it counts, seconds since 1970.
    pub expires: i64,
    /// Its own identity.
    pub id: String,
    /// Namespace of the ServiceAccount.
    pub namespace: String,
    /// Name of the ServiceAccount.
    pub account: String,
    /// uid of the ServiceAccount.
    pub account_uid: String,
    /// The object it is bound to.
    pub bound: Option<Bound>,
}

/// A TokenRequest as it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Whom the token is for.
    pub audiences: Vec<String>,
    /// Life (seconds).
    pub seconds: i64,
    /// The object to bind it to; its uid is empty if the request names none.
    pub bound: Option<Bound>,
    /// Said to the client.
    pub warnings: Vec<String>,
}

/// Why a token does not count.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenError {
    /// Not a token of this hub at all.
    #[error("it is not a token of this hub")]
    Foreign,
    /// Signature or key.
    #[error("its signature is not this hub's")]
    Signature,
    /// Its time is over.
    #[error("it has expired")]
    Expired,
    /// Its time has not come.
    #[error("it is not valid yet")]
    Early,
    /// It is for others.
    #[error("it is for the audiences {given:?}, not for {wanted:?}")]
    Audience {
        /// In the token.
        given: Vec<String>,
        /// Asked for.
        wanted: Vec<String>,
    },
    /// The ServiceAccount, or what it is bound to, is gone or another one.
    #[error("{0} is gone")]
    Gone(String),
}

impl Ask {
    /// Reads a TokenRequest.
    ///
    /// # Errors
    /// 422 for a life or an object that cannot be.
    pub fn read(name: &str, body: &Value) -> Result<Ask, StatusError> {
        let mut causes = Vec::new();
        let mut warnings = Vec::new();
        let audiences = body
            .pointer("/spec/audiences")
            .and_then(Value::as_array)
            .into_iter()
            .flatten();
        let mut audiences: Vec<String> = audiences.filter_map(|a| a.as_str().map(str::to_owned)).collect();
        if audiences.is_empty() {
            audiences.push(ISSUER.to_owned());
        }
        let mut seconds = body
            .pointer("/spec/expirationSeconds")
            .and_then(Value::as_i64)
            .unwrap_or(DEFAULT_SECONDS);
        if seconds < MIN_SECONDS {
            let why = "may not specify a duration less than 10 minutes";
            causes.push(Cause::invalid("spec.expirationSeconds", &json!(seconds), why));
        } else if seconds > 1 << 32 {
            let why = "may not specify a duration larger than 2^32 seconds";
            causes.push(Cause::invalid("spec.expirationSeconds", &json!(seconds), why));
        } else if seconds > MAX_TOKEN_SECONDS {
            warnings.push(format!(
                "requested expiration of {seconds} seconds shortened to {MAX_TOKEN_SECONDS} seconds"
            ));
            seconds = MAX_TOKEN_SECONDS;
        }
        let object = body.pointer("/spec/boundObjectRef").filter(|o| !o.is_null());
        let bound = object.and_then(|object| {
            let own = |key: &str| {
                object
                    .get(key)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    .to_owned()
            };
            let (kind, api_version) = (own("kind"), own("apiVersion"));
            if !matches!(kind.as_str(), "Pod" | "Secret") || api_version != "v1" {
                let why = "a token can be bound to a v1 Pod or Secret";
                causes.push(Cause::invalid(
                    "spec.boundObjectRef",
                    &json!(format!("{api_version} {kind}")),
                    why,
                ));
                return None;
            }
            Some(Bound {
                kind,
                name: own("name"),
                uid: own("uid"),
            })
        });
        if !causes.is_empty() {
            return Err(StatusError::invalid(
                "authentication.k8s.io",
                "TokenRequest",
                name,
                causes,
            ));
        }
        Ok(Ask {
            audiences,
            seconds,
            bound,
            warnings,
        })
    }
}

impl Claims {
    fn to_value(&self) -> Value {
        let mut own = json!({"namespace": self.namespace,
            "serviceaccount": {"name": self.account, "uid": self.account_uid}});
        if let Some(bound) = &self.bound {
            own[bound.kind.to_lowercase()] = json!({"name": bound.name, "uid": bound.uid});
        }
        json!({"aud": self.audiences, "exp": self.expires, "iat": self.issued, "iss": ISSUER, "jti": self.id,
            "kubernetes.io": own, "nbf": self.issued,
            "sub": super::service_account_user(&self.namespace, &self.account)})
    }

    fn read(value: &Value) -> Option<Claims> {
        let text = |pointer: &str| value.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let number = |key: &str| value.get(key).and_then(Value::as_i64);
        if value.get("iss").and_then(Value::as_str) != Some(ISSUER) {
            return None;
        }
        let audiences = value.get("aud").and_then(Value::as_array)?;
        let bound = ["Pod", "Secret"].into_iter().find_map(|kind| {
            let at = format!("/kubernetes.io/{}", kind.to_lowercase());
            Some(Bound {
                kind: kind.to_owned(),
                name: text(&format!("{at}/name"))?,
                uid: text(&format!("{at}/uid"))?,
            })
        });
        Some(Claims {
            audiences: audiences
                .iter()
                .filter_map(|a| a.as_str().map(str::to_owned))
                .collect(),
            issued: number("nbf")?,
            expires: number("exp")?,
            id: text("/jti")?,
            namespace: text("/kubernetes.io/namespace")?,
            account: text("/kubernetes.io/serviceaccount/name")?,
            account_uid: text("/kubernetes.io/serviceaccount/uid")?,
            bound,
        })
    }

    /// Which of the wanted audiences it is for (none wanted: the hub itself).
    ///
    /// # Errors
    /// Its time is over or has not come, or it is for others.
    pub fn check(&self, wanted: &[String], now: i64) -> Result<Vec<String>, TokenError> {
        // Clocks of one machine do not differ, those of a restored one may.
        const LEEWAY: i64 = 60;
        if now > self.expires + LEEWAY {
            return Err(TokenError::Expired);
        }
        if now < self.issued - LEEWAY {
            return Err(TokenError::Early);
        }
        let own = [ISSUER.to_owned()];
        let wanted = if wanted.is_empty() { &own[..] } else { wanted };
        let matching: Vec<String> = wanted
            .iter()
            .filter(|w| self.audiences.contains(w))
            .cloned()
            .collect();
        if matching.is_empty() {
            return Err(TokenError::Audience {
                given: self.audiences.clone(),
                wanted: wanted.to_vec(),
            });
        }
        Ok(matching)
    }

    /// Who carries it.
    pub fn user(&self) -> User {
        let mut user = User::service_account(&self.namespace, &self.account, &self.account_uid);
        let mut add = |key: &str, value: &str| {
            user.extra.insert(key.to_owned(), vec![value.to_owned()]);
        };
        add(CREDENTIAL_ID, &format!("JTI={}", self.id));
        if let Some(bound) = self.bound.as_ref().filter(|b| b.kind == "Pod") {
            add("authentication.kubernetes.io/pod-name", &bound.name);
            add("authentication.kubernetes.io/pod-uid", &bound.uid);
        }
        user
    }
}

/// The part of a token that is signed (ES256).
pub fn signing_input(claims: &Claims, key_id: &str) -> String {
    let header = json!({"alg": "ES256", "kid": key_id});
    let part = |value: &Value| BASE64.encode(value.to_string());
    format!("{}.{}", part(&header), part(&claims.to_value()))
}

/// A token with its signature.
pub fn assemble(signing_input: &str, signature: &[u8]) -> String {
    format!("{signing_input}.{}", BASE64.encode(signature))
}

/// A token taken apart; nothing of it is believed before the signature was checked.
#[derive(Debug, PartialEq, Eq)]
pub struct Parts<'t> {
    /// What is signed.
    pub signing_input: &'t str,
    /// The signature.
    pub signature: Vec<u8>,
    /// Which key is said to have signed it.
    pub key_id: String,
    /// What it says.
    pub claims: Claims,
}

/// Takes a token apart.
///
/// # Errors
/// It is none of this hub.
pub fn parse(token: &str) -> Result<Parts<'_>, TokenError> {
    if token.len() > MAX_TOKEN_BYTES {
        return Err(TokenError::Foreign);
    }
    let read = || {
        let (signing_input, signature) = token.rsplit_once('.')?;
        let (header, claims) = signing_input.split_once('.')?;
        let json = |part: &str| serde_json::from_slice::<Value>(&BASE64.decode(part).ok()?).ok();
        let header = json(header)?;
        if header.get("alg").and_then(Value::as_str) != Some("ES256") {
            return None;
        }
        Some(Parts {
            signing_input,
            signature: BASE64.decode(signature).ok()?,
            key_id: header.get("kid")?.as_str()?.to_owned(),
            claims: Claims::read(&json(claims)?)?,
        })
    };
    read().ok_or(TokenError::Foreign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn claims() -> Claims {
        Claims {
            audiences: vec![ISSUER.to_owned(), "vault".to_owned()],
            issued: 1_000,
            expires: 5_000,
            id: "j".to_owned(),
            namespace: "a".to_owned(),
            account: "b".to_owned(),
            account_uid: "u".to_owned(),
            bound: Some(Bound {
                kind: "Pod".to_owned(),
                name: "p".to_owned(),
                uid: "v".to_owned(),
            }),
        }
    }

    #[test]
    fn a_token_is_read_back() {
        let input = signing_input(&claims(), "k");
        let token = assemble(&input, b"signed");
        let parts = parse(&token).expect("our token");
        assert_eq!(
            (parts.signing_input, &*parts.signature, &*parts.key_id),
            (&*input, &b"signed"[..], "k")
        );
        assert_eq!(parts.claims, claims());
        assert_eq!(parts.claims.user().name, "system:serviceaccount:a:b");
        let long = "x".repeat(MAX_TOKEN_BYTES + 1);
        for foreign in ["", "a", "a.b.c", "e30.e30.e30", &long, &token[1..]] {
            assert_eq!(parse(foreign), Err(TokenError::Foreign), "{foreign}");
        }
    }

    #[test]
    fn tokens_count_for_a_time_and_an_audience() {
        let own = Vec::new();
        assert_eq!(claims().check(&own, 2_000), Ok(vec![ISSUER.to_owned()]));
        let vault = ["vault".to_owned(), "x".to_owned()];
        assert_eq!(claims().check(&vault, 2_000), Ok(vec!["vault".to_owned()]));
        assert!(matches!(
            claims().check(&["x".to_owned()], 2_000),
            Err(TokenError::Audience { .. })
        ));
        assert_eq!(claims().check(&own, 5_061), Err(TokenError::Expired));
        assert_eq!(claims().check(&own, 900), Err(TokenError::Early));
    }

    #[test]
    fn requests_are_read_or_refused() {
        let ask = Ask::read("b", &json!({"spec": {}})).expect("all defaults");
        assert_eq!((ask.seconds, ask.audiences), (3_600, vec![ISSUER.to_owned()]));
        let long = Ask::read("b", &json!({"spec": {"expirationSeconds": 999_999_999}})).expect("shortened");
        assert_eq!((long.seconds, long.warnings.len()), (MAX_TOKEN_SECONDS, 1));
        for spec in [
            json!({"expirationSeconds": 1}),
            json!({"expirationSeconds": 1_i64 << 40}),
            json!({"boundObjectRef": {"kind": "ConfigMap", "apiVersion": "v1", "name": "x"}}),
        ] {
            assert_eq!(
                Ask::read("b", &json!({"spec": spec}))
                    .expect_err("refused")
                    .code(),
                422,
                "{spec}"
            );
        }
    }
}
