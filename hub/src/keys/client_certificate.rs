//! Client certificates with any number of groups, written byte by byte: `rcgen` keeps one organization per name.
//! What a client asks to be signed keeps its own subject and key.

use ring::rand::{SecureRandom, SystemRandom};
use ring::signature::{ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair};
use rustls_pki_types::PrivateKeyDer;
use shared::time::UnixSeconds;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::KeysError;
use super::certificates::{Pair, certificate_der, key_der};

const SEQUENCE: u8 = 0x30;
const SET: u8 = 0x31;
const INTEGER: u8 = 0x02;
const BIT_STRING: u8 = 0x03;
const OCTET_STRING: u8 = 0x04;
const UTF8_STRING: u8 = 0x0c;
const BOOLEAN: u8 = 0x01;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// `ecdsa-with-SHA256`, as a whole AlgorithmIdentifier.
const ECDSA_SHA256: &[u8] = &[SEQUENCE, 10, 6, 8, 0x2a, 0x86, 0x48, 0xce, 0x3d, 4, 3, 2];
const COMMON_NAME: &[u8] = &[6, 3, 0x55, 4, 3];
const ORGANIZATION: &[u8] = &[6, 3, 0x55, 4, 10];
const KEY_USAGE: &[u8] = &[6, 3, 0x55, 0x1d, 15];
const BASIC_CONSTRAINTS: &[u8] = &[6, 3, 0x55, 0x1d, 19];
const AUTHORITY_KEY: &[u8] = &[6, 3, 0x55, 0x1d, 35];
const EXTENDED_KEY_USAGE: &[u8] = &[6, 3, 0x55, 0x1d, 37];
const CLIENT_AUTH: &[u8] = &[6, 8, 0x2b, 6, 1, 5, 5, 7, 3, 2];

fn tlv(tag: u8, content: &[u8]) -> Vec<u8> {
    let mut out = vec![tag];
    let length = content.len();
    if length < 128 {
        out.push(length as u8);
    } else {
        let bytes = length.to_be_bytes();
        let first = bytes.iter().position(|b| *b != 0).unwrap_or(bytes.len() - 1);
        out.push(0x80 | (bytes.len() - first) as u8);
        out.extend_from_slice(&bytes[first..]);
    }
    out.extend_from_slice(content);
    out
}

fn sequence(parts: &[&[u8]]) -> Vec<u8> {
    tlv(SEQUENCE, &parts.concat())
}

/// Subject of a user: groups as organizations, the name as common name.
pub(super) fn subject(user: &str, groups: &[String]) -> Vec<u8> {
    let attribute = |oid: &[u8], text: &str| tlv(SET, &sequence(&[oid, &tlv(UTF8_STRING, text.as_bytes())]));
    let mut names: Vec<u8> = Vec::new();
    for group in groups {
        names.extend(attribute(ORGANIZATION, group));
    }
    names.extend(attribute(COMMON_NAME, user));
    tlv(SEQUENCE, &names)
}

/// UTCTime until 2049, GeneralizedTime from then on (RFC 5280).
fn time(at: UnixSeconds) -> Vec<u8> {
    let digits: String = at
        .rfc3339()
        .chars()
        .filter(char::is_ascii_digit)
        .take(14)
        .collect();
    let year: u16 = digits.get(..4).and_then(|y| y.parse().ok()).unwrap_or(1970);
    if year < 2050 {
        tlv(UTC_TIME, format!("{}Z", &digits[2..]).as_bytes())
    } else {
        tlv(GENERALIZED_TIME, format!("{digits}Z").as_bytes())
    }
}

fn extension(oid: &[u8], critical: bool, value: &[u8]) -> Vec<u8> {
    let critical: &[u8] = if critical { &[BOOLEAN, 1, 0xff] } else { &[] };
    sequence(&[oid, critical, &tlv(OCTET_STRING, value)])
}

/// Signs a client certificate: subject and public key as DER, valid between two moments. Gives its DER.
pub(super) fn sign(
    ca: &Pair,
    subject: &[u8],
    public_key: &[u8],
    from: UnixSeconds,
    until: UnixSeconds,
) -> Result<Vec<u8>, KeysError> {
    let failed = |cause: &str| KeysError::Certificate {
        cause: cause.to_owned(),
    };
    let ca_der = certificate_der(&ca.certificate)?;
    let (_, issuer) =
        X509Certificate::from_der(&ca_der).map_err(|_| failed("the CA's certificate is not readable"))?;
    let key_id = issuer.iter_extensions().find_map(|e| match e.parsed_extension() {
        x509_parser::extensions::ParsedExtension::SubjectKeyIdentifier(id) => Some(id.0.to_vec()),
        _ => None,
    });
    let random = SystemRandom::new();
    let mut serial = [0; 16];
    random
        .fill(&mut serial)
        .map_err(|_| failed("no randomness from the system"))?;
    // Positive and never short.
    serial[0] = serial[0] & 0x7f | 0x40;

    // digitalSignature is the first bit.
    let mut extensions = extension(KEY_USAGE, true, &tlv(BIT_STRING, &[7, 0x80]));
    extensions.extend(extension(EXTENDED_KEY_USAGE, false, &sequence(&[CLIENT_AUTH])));
    extensions.extend(extension(BASIC_CONSTRAINTS, true, &sequence(&[])));
    if let Some(id) = key_id {
        extensions.extend(extension(AUTHORITY_KEY, false, &sequence(&[&tlv(0x80, &id)])));
    }
    let unsigned = sequence(&[
        &tlv(0xa0, &[INTEGER, 1, 2]),
        &tlv(INTEGER, &serial),
        ECDSA_SHA256,
        issuer.subject().as_raw(),
        &sequence(&[&time(from), &time(until)]),
        subject,
        public_key,
        &tlv(0xa3, &tlv(SEQUENCE, &extensions)),
    ]);
    let PrivateKeyDer::Pkcs8(key) = key_der(&ca.key)? else {
        return Err(failed("the CA's key is not PKCS#8"));
    };
    let key = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, key.secret_pkcs8_der(), &random)
        .map_err(|error| failed(&error.to_string()))?;
    let signature = key
        .sign(&random, &unsigned)
        .map_err(|_| failed("the CA's key does not sign"))?;
    let mut bits = vec![0];
    bits.extend_from_slice(signature.as_ref());
    Ok(sequence(&[&unsigned, ECDSA_SHA256, &tlv(BIT_STRING, &bits)]))
}

#[cfg(test)]
mod tests {
    use super::super::certificates::make_ca;
    use super::*;
    use rustls::RootCertStore;
    use rustls::server::WebPkiClientVerifier;
    use rustls_pki_types::{CertificateDer, UnixTime};
    use std::sync::Arc;
    use std::time::Duration;

    #[test]
    fn what_is_signed_is_accepted_by_tls_and_names_all_groups() {
        let now = UnixSeconds(1_800_000_000);
        let ca = make_ca(now).unwrap();
        let key = rcgen::KeyPair::generate_for(&rcgen::PKCS_ECDSA_P256_SHA256).unwrap();
        let spki = rcgen::PublicKeyData::subject_public_key_info(&key);
        let groups = ["dev".to_owned(), "ops".repeat(60)];
        for until in [now.plus(3_600), now.plus(40 * 365 * 86_400)] {
            let der = sign(&ca, &subject("änn", &groups), &spki, now, until).unwrap();
            let (rest, read) = X509Certificate::from_der(&der).unwrap();
            assert!(rest.is_empty());
            assert_eq!(read.validity().not_after.timestamp(), until.0);
            let subject = read.subject();
            assert_eq!(
                subject.iter_common_name().next().unwrap().as_str().unwrap(),
                "änn"
            );
            let read_groups: Vec<_> = subject.iter_organization().map(|o| o.as_str().unwrap()).collect();
            assert_eq!(read_groups, groups);

            let mut roots = RootCertStore::empty();
            roots.add(certificate_der(&ca.certificate).unwrap()).unwrap();
            let provider = Arc::new(rustls::crypto::ring::default_provider());
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .build()
                .unwrap();
            let at = |seconds: i64| UnixTime::since_unix_epoch(Duration::from_secs(seconds.cast_unsigned()));
            let certificate = CertificateDer::from(der);
            assert!(
                verifier
                    .verify_client_cert(&certificate, &[], at(now.0 + 5))
                    .is_ok()
            );
            assert!(
                verifier
                    .verify_client_cert(&certificate, &[], at(until.0 + 5))
                    .is_err()
            );
        }
    }
}
