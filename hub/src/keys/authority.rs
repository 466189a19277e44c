//! What the hub vouches for towards API clients: certificates of users, tokens of ServiceAccounts.

use std::path::Path;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use hub_core::access::token::{self, Claims, TokenError};
use ring::digest::{SHA256, digest};
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject;
use serde_json::{Value, json};
use shared::time::UnixSeconds;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use super::certificates::{Pair, new_key};
use super::{KeysError, client_certificate, files, kubeconfig, pem};

/// File of the key that signs ServiceAccount tokens (ECDSA P-256).
pub(super) const FILE: &str = "service-account.key";
/// A certificate counts from this long before it was made (seconds).
const BACKDATE_S: i64 = 300;

/// Signs for users and ServiceAccounts, and checks tokens.
pub struct Authority {
    ca: Pair,
    tokens: EcdsaKeyPair,
    key_id: String,
    random: SystemRandom,
    server: String,
}

impl std::fmt::Debug for Authority {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authority")
            .field("key_id", &self.key_id)
            .finish_non_exhaustive()
    }
}

/// A certificate that the authority signed.
#[derive(Debug, Clone)]
pub struct Signed {
    /// PEM.
    pub certificate: String,
    /// SHA-256 of the certificate in hex: what it is known by.
    pub fingerprint: String,
}

/// What a client asks to be signed, after its own signature was checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SigningRequest {
    /// Common name.
    pub user: String,
    /// Organizations.
    pub groups: Vec<String>,
    subject: Vec<u8>,
    public_key: Vec<u8>,
}

/// SHA-256 of a certificate in hex.
#[must_use]
pub fn fingerprint(der: &[u8]) -> String {
    let hash = digest(&SHA256, der);
    hash.as_ref().iter().map(|b| format!("{b:02x}")).collect()
}

fn certificate_error(cause: impl std::fmt::Display) -> KeysError {
    KeysError::Certificate {
        cause: cause.to_string(),
    }
}

/// Makes the token key's file unless it is there.
pub(super) fn create(dir: &Path) -> Result<(), KeysError> {
    let path = dir.join(FILE);
    if path.exists() {
        return Ok(());
    }
    let pkcs8 = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new())
        .map_err(|_| certificate_error("no randomness from the system"))?;
    files::create(&path, pem(pkcs8.as_ref()).as_bytes())
}

impl Authority {
    /// Reads the token key of a directory; a hub made before there were tokens gets one now.
    pub(super) fn load(dir: &Path, ca: Pair, server: &str) -> Result<Arc<Authority>, KeysError> {
        create(dir)?;
        let path = dir.join(FILE);
        let corrupt = |cause: String| KeysError::Corrupt {
            path: path.clone(),
            cause,
        };
        let der = PrivatePkcs8KeyDer::from_pem_slice(&files::read(&path)?)
            .map_err(|error| corrupt(error.to_string()))?;
        let random = SystemRandom::new();
        let tokens =
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, der.secret_pkcs8_der(), &random)
                .map_err(|error| corrupt(error.to_string()))?;
        let key_id = URL_SAFE_NO_PAD.encode(digest(&SHA256, tokens.public_key().as_ref()));
        Ok(Arc::new(Authority {
            ca,
            tokens,
            key_id,
            random,
            server: server.to_owned(),
        }))
    }

    /// PEM of the API CA's certificate.
    #[must_use]
    pub fn ca_pem(&self) -> &str {
        &self.ca.certificate
    }

    /// Makes key and certificate of a user, as a kubeconfig.
    ///
    /// # Errors
    /// The library refuses.
    pub fn kubeconfig(
        &self,
        user: &str,
        groups: &[String],
        now: UnixSeconds,
        until: UnixSeconds,
    ) -> Result<(String, Signed), KeysError> {
        let key = new_key()?;
        let request = SigningRequest {
            user: user.to_owned(),
            groups: groups.to_vec(),
            subject: client_certificate::subject(user, groups),
            public_key: rcgen::PublicKeyData::subject_public_key_info(&key),
        };
        let signed = self.sign(&request, now, until)?;
        let pair = Pair {
            certificate: signed.certificate.clone(),
            key: key.serialize_pem(),
        };
        let text = kubeconfig::render(&self.server, &self.ca.certificate, user, &pair);
        Ok((text, signed))
    }

    /// Reads a PEM certificate request and checks its signature.
    ///
    /// # Errors
    /// It is none, its signature is not of its key, or it names nobody.
    pub fn read_request(&self, pem: &str) -> Result<SigningRequest, KeysError> {
        // Checks the signature and refuses what it does not understand.
        rcgen::CertificateSigningRequestParams::from_pem(pem).map_err(certificate_error)?;
        let (_, outer) = x509_parser::pem::parse_x509_pem(pem.as_bytes()).map_err(certificate_error)?;
        let (_, request) = X509CertificationRequest::from_der(&outer.contents).map_err(certificate_error)?;
        let info = &request.certification_request_info;
        let texts = |found: Vec<Result<&str, _>>| -> Result<Vec<String>, KeysError> {
            found
                .into_iter()
                .map(|text: Result<&str, x509_parser::error::X509Error>| {
                    text.map(str::to_owned).map_err(certificate_error)
                })
                .collect()
        };
        let users = texts(info.subject.iter_common_name().map(|n| n.as_str()).collect())?;
        let [user] = <[String; 1]>::try_from(users)
            .map_err(|_| certificate_error("the subject has not exactly one common name"))?;
        if user.is_empty() {
            return Err(certificate_error("the common name is empty"));
        }
        Ok(SigningRequest {
            user,
            groups: texts(info.subject.iter_organization().map(|o| o.as_str()).collect())?,
            subject: info.subject.as_raw().to_vec(),
            public_key: info.subject_pki.raw.to_vec(),
        })
    }

    /// Signs a client certificate.
    ///
    /// # Errors
    /// The CA cannot be used.
    pub fn sign(
        &self,
        request: &SigningRequest,
        now: UnixSeconds,
        until: UnixSeconds,
    ) -> Result<Signed, KeysError> {
        let from = now.plus(-BACKDATE_S);
        let der = client_certificate::sign(&self.ca, &request.subject, &request.public_key, from, until)?;
        let mut text = String::from("-----BEGIN CERTIFICATE-----\n");
        let body = STANDARD.encode(&der);
        for line in body.as_bytes().chunks(64) {
            text.extend(line.iter().map(|b| char::from(*b)));
            text.push('\n');
        }
        text.push_str("-----END CERTIFICATE-----\n");
        Ok(Signed {
            certificate: text,
            fingerprint: fingerprint(&der),
        })
    }

    /// Writes and signs a token.
    ///
    /// # Errors
    /// The key does not sign.
    pub fn sign_token(&self, claims: &Claims) -> Result<String, KeysError> {
        let input = token::signing_input(claims, &self.key_id);
        let signature = self
            .tokens
            .sign(&self.random, input.as_bytes())
            .map_err(|_| certificate_error("the token key does not sign"))?;
        Ok(token::assemble(&input, signature.as_ref()))
    }

    /// What a token of this hub says. Its time, its audience and its account are still to be looked at.
    ///
    /// # Errors
    /// It is none, or not signed by this hub.
    pub fn read_token(&self, text: &str) -> Result<Claims, TokenError> {
        let parts = token::parse(text)?;
        let key = UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.tokens.public_key().as_ref());
        let is_ours = parts.key_id == self.key_id
            && key
                .verify(parts.signing_input.as_bytes(), &parts.signature)
                .is_ok();
        if is_ours {
            Ok(parts.claims)
        } else {
            Err(TokenError::Signature)
        }
    }

    /// The public half of the token key, for others who check tokens (JSON Web Key Set).
    #[must_use]
    pub fn key_set(&self) -> Value {
        // An uncompressed point: 4, x, y.
        let point = self.tokens.public_key().as_ref();
        let (x, y) = (&point[1..33], &point[33..65]);
        json!({"keys": [{"use": "sig", "kty": "EC", "kid": self.key_id, "crv": "P-256", "alg": "ES256",
            "x": URL_SAFE_NO_PAD.encode(x), "y": URL_SAFE_NO_PAD.encode(y)}]})
    }
}

#[cfg(test)]
mod tests {
    use super::super::certificates::make_ca;
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    fn authority() -> Arc<Authority> {
        let dir = tempfile::tempdir().unwrap();
        Authority::load(dir.path(), make_ca(NOW).unwrap(), "https://hub:1").unwrap()
    }

    #[test]
    fn tokens_of_this_key_alone_are_read() {
        let claims = Claims {
            audiences: vec!["a".to_owned()],
            issued: 1,
            expires: 2,
            id: "j".to_owned(),
            namespace: "n".to_owned(),
            account: "s".to_owned(),
            account_uid: "u".to_owned(),
            bound: None,
        };
        let (ours, theirs) = (authority(), authority());
        let text = ours.sign_token(&claims).unwrap();
        assert_eq!(ours.read_token(&text), Ok(claims));
        assert_eq!(theirs.read_token(&text), Err(TokenError::Signature));
        let at = text.len() - 10;
        let mut forged = text.clone();
        forged.replace_range(at..=at, if text.as_bytes()[at] == b'A' { "B" } else { "A" });
        assert_eq!(ours.read_token(&forged), Err(TokenError::Signature));
        assert_eq!(ours.key_set()["keys"][0]["x"].as_str().unwrap().len(), 43);
    }

    #[test]
    fn a_request_is_signed_as_it_was_asked() {
        let authority = authority();
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "ann");
        params
            .distinguished_name
            .push(rcgen::DnType::OrganizationName, "dev");
        let request = params.serialize_request(&key).unwrap().pem().unwrap();
        let read = authority.read_request(&request).unwrap();
        assert_eq!(
            (read.user.as_str(), read.groups.as_slice()),
            ("ann", &["dev".to_owned()][..])
        );
        let signed = authority.sign(&read, NOW, NOW.plus(600)).unwrap();
        let der = super::super::certificate_der(&signed.certificate).unwrap();
        assert_eq!(fingerprint(&der), signed.fingerprint);
        for bad in ["", "x", &request.replace('A', "B"), &signed.certificate] {
            assert!(authority.read_request(bad).is_err(), "{bad}");
        }
    }
}
