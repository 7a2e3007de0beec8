//! TLS of the HTTP clients. The features `webhook` and `chat` compile it; `plain-webhook` and `plain-chat` do without, so URLs and
//! certificates that need it are refused before anything is sent.

#[cfg(feature = "tls")]
use std::sync::Arc;

#[cfg(feature = "tls")]
use rustls::crypto::{CryptoProvider, aws_lc_rs};
#[cfg(feature = "tls")]
use rustls::pki_types::pem::PemObject;
#[cfg(feature = "tls")]
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
#[cfg(feature = "tls")]
use rustls_platform_verifier::Verifier;
use url::Url;

/// Refusal of what needs TLS.
pub(crate) const WITHOUT_TLS: &str = "this program was built without TLS: build it with the cargo features `webhook` and `chat` of \
     solid-notify instead of `plain-webhook` and `plain-chat`";

/// Whether this program was built with TLS.
pub(crate) const HAS_TLS: bool = cfg!(feature = "tls");

/// Checks that this program can send to a URL.
///
/// # Errors
/// A text without the URL, because a URL may have a secret in it.
pub(crate) fn check(url: &Url) -> Result<(), String> {
    check_scheme(url.scheme(), HAS_TLS)
}

/// Checks the scheme of a URL of a receiver or of a proxy.
///
/// # Errors
/// A text that says which scheme would be right.
pub(crate) fn check_scheme(scheme: &str, has_tls: bool) -> Result<(), String> {
    match scheme {
        "https" if has_tls => Ok(()),
        "https" => Err(format!("its scheme is `https`, and {WITHOUT_TLS}, or use an `http` URL")),
        "http" => Ok(()),
        _ => Err("its scheme is neither `https` nor `http`".to_owned()),
    }
}

/// How a client of HTTP does TLS.
#[cfg(feature = "tls")]
pub(crate) type Config = rustls::ClientConfig;
/// This program was built without TLS.
#[cfg(not(feature = "tls"))]
pub(crate) struct Config;

/// Certificates beside those of the operating system, in PEM.
#[derive(Clone, Copy, Default)]
pub(crate) struct Certificates<'a> {
    /// The client's certificate with its chain, and its private key. Empty: none.
    pub(crate) identity: &'a [u8],
    /// Certificates of authorities.
    pub(crate) authorities: Option<&'a [u8]>,
}

/// Makes the configuration of a client, which prefers HTTP/2.
///
/// # Errors
/// A certificate that is none. No error contains a private key.
#[cfg(feature = "tls")]
pub(crate) fn config(certificates: Certificates<'_>) -> Result<Config, String> {
    let unusable = |error: rustls::Error| format!("tls: these certificates cannot be used: {error}");
    // As other clients of the program do.
    let provider = CryptoProvider::get_default().cloned().unwrap_or_else(|| aws_lc_rs::default_provider().into());
    let authorities: Vec<_> = match certificates.authorities {
        None => Vec::new(),
        Some(pem) => CertificateDer::pem_slice_iter(pem)
            .collect::<Result<_, _>>()
            .ok()
            .filter(|authorities: &Vec<_>| !authorities.is_empty())
            .ok_or("tls.ca_file: it has no certificate in PEM")?,
    };
    let builder = Config::builder_with_provider(provider.clone());
    let builder = builder.with_safe_default_protocol_versions().map_err(unusable)?;
    let verifier = match authorities.is_empty() {
        true => Verifier::new(provider),
        false => Verifier::new_with_extra_roots(authorities, provider),
    };
    let builder = builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier.map_err(unusable)?));
    let mut config = match certificates.identity {
        [] => builder.with_no_client_auth(),
        pem => {
            let (chain, key) =
                identity(pem).ok_or("tls: `certificate` and `key` are no certificate and private key in PEM")?;
            builder.with_client_auth_cert(chain, key).map_err(unusable)?
        }
    };
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

/// Refuses certificates.
#[cfg(not(feature = "tls"))]
pub(crate) fn config(certificates: Certificates<'_>) -> Result<Config, String> {
    match (certificates.identity, certificates.authorities) {
        ([], None) => Ok(Config),
        _ => Err(format!("tls: {WITHOUT_TLS}")),
    }
}

/// Reads a certificate with its chain and its private key.
#[cfg(feature = "tls")]
fn identity(pem: &[u8]) -> Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)> {
    let chain = CertificateDer::pem_slice_iter(pem).collect::<Result<Vec<_>, _>>().ok()?;
    let key = PrivateKeyDer::from_pem_slice(pem).ok()?;
    (!chain.is_empty()).then_some((chain, key))
}

#[cfg(test)]
mod tests {
    use super::check_scheme;

    #[test]
    fn https_is_refused_without_tls() {
        assert_eq!(check_scheme("https", true), Ok(()));
        assert_eq!(check_scheme("http", false), Ok(()));
        let refusal = check_scheme("https", false).unwrap_err();
        assert!(refusal.starts_with("its scheme is `https`, and this program was built without TLS: "), "{refusal}");
        for has_tls in [true, false] {
            assert!(check_scheme("ftp", has_tls).unwrap_err().starts_with("its scheme is neither"));
        }
    }
}
