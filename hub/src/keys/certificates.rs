//! Certificates of the API: its own CA, the TLS leaf the hub renews itself, and client certificates.
//!
//! Agents trust none of this: their proof is the exchange. These certificates serve API clients only.

use std::net::IpAddr;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, PKCS_ECDSA_P256_SHA256, SanType,
};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use shared::time::UnixSeconds;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::KeysError;

const DAY_S: i64 = 86_400;
/// Life of the API CA and of the administrator's certificate.
const LONG_DAYS: i64 = 3_650;
/// Life of the TLS leaf.
const LEAF_DAYS: i64 = 365;
/// The leaf is renewed when less is left.
const RENEW_BEFORE_DAYS: i64 = 120;
/// Names every hub answers to, beside those given at `init`.
const ALWAYS: &[&str] = &[
    "localhost",
    "127.0.0.1",
    "::1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
];

/// A certificate with its key, both PEM.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    /// `CERTIFICATE`.
    pub(crate) certificate: String,
    /// `PRIVATE KEY` (PKCS#8).
    pub(crate) key: String,
}

/// Makes the API CA.
pub(crate) fn make_ca(now: UnixSeconds) -> Result<Pair, KeysError> {
    let key = new_key()?;
    let mut params = params("pinnace-api-ca", None, now, LONG_DAYS);
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
        KeyUsagePurpose::DigitalSignature,
    ];
    let certificate = params.self_signed(&key).map_err(rcgen_error)?;
    Ok(Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

/// Makes a TLS leaf for `names` (host names and addresses) and those every hub has.
pub(crate) fn make_leaf(ca: &Pair, names: &[String], now: UnixSeconds) -> Result<Pair, KeysError> {
    let mut params = params("pinnace-hub", None, now, LEAF_DAYS);
    params.subject_alt_names = all_names(names)
        .iter()
        .map(|name| subject_name(name))
        .collect::<Result<_, _>>()?;
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    sign(ca, &params)
}

/// Makes a client certificate: `CN` is the user, `O` the group.
pub(crate) fn make_client(ca: &Pair, user: &str, group: &str, now: UnixSeconds) -> Result<Pair, KeysError> {
    let mut params = params(user, Some(group), now, LONG_DAYS - 1);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    sign(ca, &params)
}

/// True if the leaf must be made anew: it expires soon, is not valid yet, or names other hosts.
pub(crate) fn leaf_is_stale(leaf: &str, names: &[String], now: UnixSeconds) -> bool {
    let Ok(der) = CertificateDer::from_pem_slice(leaf.as_bytes()) else {
        return true;
    };
    let Ok((_, certificate)) = X509Certificate::from_der(&der) else {
        return true;
    };
    let validity = certificate.validity();
    let expires_soon = validity.not_after.timestamp() - now.0 < RENEW_BEFORE_DAYS * DAY_S;
    let mut has: Vec<String> = match certificate.subject_alternative_name() {
        Ok(Some(extension)) => extension.value.general_names.iter().filter_map(name_of).collect(),
        Ok(None) | Err(_) => Vec::new(),
    };
    let mut wants = all_names(names);
    has.sort();
    wants.sort();
    expires_soon || validity.not_before.timestamp() > now.0 || has != wants
}

/// DER of a PEM certificate.
pub(crate) fn certificate_der(pem: &str) -> Result<CertificateDer<'static>, KeysError> {
    CertificateDer::from_pem_slice(pem.as_bytes()).map_err(|error| KeysError::Certificate {
        cause: error.to_string(),
    })
}

/// DER of a PEM key.
pub(crate) fn key_der(pem: &str) -> Result<PrivateKeyDer<'static>, KeysError> {
    PrivateKeyDer::from_pem_slice(pem.as_bytes()).map_err(|error| KeysError::Certificate {
        cause: error.to_string(),
    })
}

/// Refuses a name that no certificate can carry.
pub(crate) fn check_name(name: &str) -> Result<(), KeysError> {
    let plausible = !name.is_empty()
        && name.len() <= 253
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"-._*".contains(&b));
    if name.parse::<IpAddr>().is_ok() || plausible {
        return Ok(());
    }
    Err(KeysError::Name {
        name: name.to_owned(),
    })
}

fn all_names(names: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for name in names.iter().map(String::as_str).chain(ALWAYS.iter().copied()) {
        // One spelling per address, as it is read back from a certificate.
        let name = name
            .parse::<IpAddr>()
            .map_or_else(|_| name.to_ascii_lowercase(), |address| address.to_string());
        if !all.contains(&name) {
            all.push(name);
        }
    }
    all
}

fn subject_name(name: &str) -> Result<SanType, KeysError> {
    match name.parse::<IpAddr>() {
        Ok(address) => Ok(SanType::IpAddress(address)),
        Err(_) => {
            let name = name.try_into().map_err(|_| KeysError::Name {
                name: name.to_owned(),
            })?;
            Ok(SanType::DnsName(name))
        }
    }
}

fn name_of(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => match *bytes {
            [a, b, c, d] => Some(IpAddr::from([*a, *b, *c, *d]).to_string()),
            bytes => <[u8; 16]>::try_from(bytes)
                .ok()
                .map(|bytes| IpAddr::from(bytes).to_string()),
        },
        _ => None,
    }
}

fn sign(ca: &Pair, params: &CertificateParams) -> Result<Pair, KeysError> {
    let ca_key = KeyPair::from_pem(&ca.key).map_err(rcgen_error)?;
    let issuer = Issuer::from_ca_cert_pem(&ca.certificate, ca_key).map_err(rcgen_error)?;
    let key = new_key()?;
    let certificate = params.signed_by(&key, &issuer).map_err(rcgen_error)?;
    Ok(Pair {
        certificate: certificate.pem(),
        key: key.serialize_pem(),
    })
}

pub(super) fn new_key() -> Result<KeyPair, KeysError> {
    KeyPair::generate_for(&PKCS_ECDSA_P256_SHA256).map_err(rcgen_error)
}

fn params(common_name: &str, organization: Option<&str>, now: UnixSeconds, days: i64) -> CertificateParams {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    if let Some(organization) = organization {
        name.push(DnType::OrganizationName, organization);
    }
    let mut params = CertificateParams::default();
    params.distinguished_name = name;
    // A day back, for clients whose clock is behind.
    let ((y1, m1, d1), (y2, m2, d2)) = (date(now.plus(-DAY_S)), date(now.plus(days * DAY_S)));
    params.not_before = rcgen::date_time_ymd(y1, m1, d1);
    params.not_after = rcgen::date_time_ymd(y2, m2, d2);
    params.use_authority_key_identifier_extension = true;
    params
}

/// Year, month and day. rcgen takes whole days; its own time type is not exported.
fn date(at: UnixSeconds) -> (i32, u8, u8) {
    let text = at.rfc3339();
    let number = |from: usize, to: usize| {
        text.get(from..to)
            .and_then(|part| part.parse::<u16>().ok())
            .unwrap_or(1)
    };
    (i32::from(number(0, 4)), number(5, 7) as u8, number(8, 10) as u8)
}

fn rcgen_error(error: rcgen::Error) -> KeysError {
    KeysError::Certificate {
        cause: error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: UnixSeconds = UnixSeconds(1_800_000_000);

    #[test]
    fn a_leaf_is_stale_when_it_ends_soon_or_names_change() {
        let ca = make_ca(NOW).unwrap();
        let names = vec!["hub.example.com".to_owned(), "192.0.2.7".to_owned()];
        let leaf = make_leaf(&ca, &names, NOW).unwrap().certificate;
        assert!(!leaf_is_stale(&leaf, &names, NOW));
        assert!(!leaf_is_stale(&leaf, &names, NOW.plus(200 * DAY_S)));
        assert!(leaf_is_stale(&leaf, &names, NOW.plus(300 * DAY_S)));
        assert!(leaf_is_stale(&leaf, &names, NOW.plus(-5 * DAY_S)));
        assert!(leaf_is_stale(&leaf, &["hub.example.com".to_owned()], NOW));
        assert!(leaf_is_stale("no certificate", &names, NOW));
    }

    #[test]
    fn a_client_certificate_names_user_and_group() {
        let ca = make_ca(NOW).unwrap();
        let pair = make_client(&ca, "admin", "system:masters", NOW).unwrap();
        let der = certificate_der(&pair.certificate).unwrap();
        let (_, certificate) = X509Certificate::from_der(&der).unwrap();
        let subject = certificate.subject();
        let organizations: Vec<&str> = subject.iter_organization().map(|o| o.as_str().unwrap()).collect();
        assert_eq!(organizations, ["system:masters"]);
        assert_eq!(
            subject.iter_common_name().next().unwrap().as_str().unwrap(),
            "admin"
        );
        let (_, ca_certificate) =
            X509Certificate::from_der(certificate_der(&ca.certificate).unwrap().as_ref())
                .map(|(r, c)| (r.len(), c.is_ca()))
                .unwrap();
        assert!(ca_certificate);
    }

    #[test]
    fn names_that_no_certificate_carries_are_refused() {
        for good in [
            "hub.example.com",
            "192.0.2.1",
            "2001:db8::1",
            "a-b_c",
            "*.example.com",
        ] {
            assert!(check_name(good).is_ok(), "{good}");
        }
        for bad in ["", "a b", "hub:6443", "https://hub", "ä"] {
            assert!(check_name(bad).is_err(), "{bad}");
        }
    }
}
