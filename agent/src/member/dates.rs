//! The certificate of the member's own API on a machine whose clock is wrong.
//!
//! Chain and name are always checked. The dates must hold at the machine's clock or, failing that, at the last time
//! that is known to have been: the build of this program, or what the hub last confirmed. So a machine that boots with
//! its clock at 1970 and no network reaches its own API server.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::{CertificateError, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use shared::time::UnixSeconds;

/// A time that has been, for sure. Clones share it; it never goes back.
#[derive(Debug, Clone)]
pub struct Confirmed(Arc<AtomicI64>);

impl Default for Confirmed {
    /// The build of this program.
    fn default() -> Self {
        let built = env!("PINNACE_BUILT").parse().unwrap_or(0);
        Self(Arc::new(AtomicI64::new(built)))
    }
}

impl Confirmed {
    /// The hub said that it is this late.
    pub fn raise(&self, time: UnixSeconds) {
        self.0.fetch_max(time.0, Ordering::Relaxed);
    }

    fn time(&self) -> UnixTime {
        let seconds = u64::try_from(self.0.load(Ordering::Relaxed)).unwrap_or(0);
        UnixTime::since_unix_epoch(Duration::from_secs(seconds))
    }
}

/// The authorities that may have signed the API's certificate.
#[derive(Debug)]
pub(super) enum Authorities {
    /// As the kubeconfig has them.
    Given(Arc<WebPkiServerVerifier>),
    /// In a file that the kubelet renews: read again for every connection.
    File(PathBuf),
}

/// Checks chain and name, and the dates at either of two times.
#[derive(Debug)]
pub(super) struct TwoTimes {
    authorities: Authorities,
    confirmed: Confirmed,
    provider: Arc<CryptoProvider>,
}

/// The checker for authorities in DER.
///
/// # Errors
/// When one of them is no certificate, or there is none.
pub(super) fn given(certificates: &[Vec<u8>], provider: &Arc<CryptoProvider>) -> Result<Authorities, Error> {
    let all = certificates.iter().map(|der| CertificateDer::from(der.clone()));
    verifier(all, provider).map(Authorities::Given)
}

fn verifier<'a>(
    certificates: impl Iterator<Item = CertificateDer<'a>>,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, Error> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate.into_owned())?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|e| Error::General(format!("the authorities of the member's API: {e}")))
}

impl TwoTimes {
    pub(super) fn new(authorities: Authorities, confirmed: Confirmed, provider: Arc<CryptoProvider>) -> Self {
        Self {
            authorities,
            confirmed,
            provider,
        }
    }

    fn verifier(&self) -> Result<Arc<WebPkiServerVerifier>, Error> {
        let path = match &self.authorities {
            Authorities::Given(verifier) => return Ok(verifier.clone()),
            Authorities::File(path) => path,
        };
        let unreadable = |e: &dyn std::fmt::Display| Error::General(format!("{}: {e}", path.display()));
        let read: Result<Vec<_>, _> = CertificateDer::pem_file_iter(path)
            .map_err(|e| unreadable(&e))?
            .collect();
        verifier(read.map_err(|e| unreadable(&e))?.into_iter(), &self.provider)
    }
}

fn is_of_dates(error: &Error) -> bool {
    matches!(
        error,
        Error::InvalidCertificate(
            CertificateError::Expired
                | CertificateError::ExpiredContext { .. }
                | CertificateError::NotValidYet
                | CertificateError::NotValidYetContext { .. }
        )
    )
}

impl ServerCertVerifier for TwoTimes {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verifier = self.verifier()?;
        let at =
            |time| verifier.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, time);
        match at(now) {
            Err(e) if is_of_dates(&e) => at(self.confirmed.time()).map_err(|_| e),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?
            .verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?
            .verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider
            .signature_verification_algorithms
            .supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

    struct Api {
        authority: Vec<u8>,
        pem: String,
        leaf: CertificateDer<'static>,
    }

    /// An API server whose certificate holds from 2030 to 2031.
    fn api() -> Api {
        let mut params = CertificateParams::new(vec![]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().unwrap();
        let authority = params.self_signed(&key).unwrap();
        let issuer = Issuer::new(params, key);
        let mut leaf = CertificateParams::new(vec!["member.example".to_owned()]).unwrap();
        leaf.not_before = rcgen::date_time_ymd(2030, 1, 1);
        leaf.not_after = rcgen::date_time_ymd(2031, 1, 1);
        let leaf = leaf.signed_by(&KeyPair::generate().unwrap(), &issuer).unwrap();
        Api {
            authority: authority.der().to_vec(),
            pem: authority.pem(),
            leaf: leaf.der().clone(),
        }
    }

    const IN_1970: i64 = 60;
    const IN_2030: i64 = 1_905_000_000;
    const IN_2040: i64 = 2_220_000_000;

    fn checks(verifier: &TwoTimes, leaf: &CertificateDer<'_>, name: &str, now: i64) -> Result<(), Error> {
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let now = UnixTime::since_unix_epoch(Duration::from_secs(u64::try_from(now).unwrap()));
        verifier
            .verify_server_cert(leaf, &[], &name, &[], now)
            .map(|_| ())
    }

    fn two_times(authorities: Authorities, confirmed: i64) -> TwoTimes {
        let time = Confirmed(Arc::new(AtomicI64::new(0)));
        time.raise(UnixSeconds(confirmed));
        TwoTimes::new(
            authorities,
            time,
            Arc::new(rustls::crypto::ring::default_provider()),
        )
    }

    #[test]
    fn a_wrong_clock_on_either_side_does_not_lock_the_agent_out() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let api = api();
        for (now, confirmed, good) in [
            (IN_2030, IN_1970, true),
            (IN_1970, IN_2030, true),
            (IN_2040, IN_2030, true),
            (IN_1970, IN_1970, false),
            (IN_2040, IN_2040, false),
        ] {
            let verifier = two_times(
                given(std::slice::from_ref(&api.authority), &provider).unwrap(),
                confirmed,
            );
            let answer = checks(&verifier, &api.leaf, "member.example", now);
            assert_eq!(
                answer.is_ok(),
                good,
                "clock {now}, confirmed {confirmed}: {answer:?}"
            );
            if let Err(e) = answer {
                assert!(is_of_dates(&e), "{e}");
            }
        }
    }

    #[test]
    fn chain_and_name_are_checked_whatever_the_clock_says() {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (mine, other) = (api(), api());
        let verifier = two_times(given(&[mine.authority], &provider).unwrap(), IN_2030);
        for now in [IN_1970, IN_2030] {
            assert!(checks(&verifier, &mine.leaf, "elsewhere.example", now).is_err());
            assert!(checks(&verifier, &other.leaf, "member.example", now).is_err());
        }
    }

    #[test]
    fn authorities_in_a_file_are_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("ca.crt");
        let (old, new) = (api(), api());
        std::fs::write(&path, &old.pem).unwrap();
        let verifier = two_times(Authorities::File(path.clone()), IN_2030);
        assert!(checks(&verifier, &new.leaf, "member.example", IN_2030).is_err());
        std::fs::write(&path, &new.pem).unwrap();
        assert_eq!(checks(&verifier, &new.leaf, "member.example", IN_2030), Ok(()));
    }
}
