//! [`ByName`]: verifies the certificate of a server by the name in the URL, where the client connects to an address.
//!
//! The client would compare the certificate with the address. It sends no name to the server (SNI), so a server must have one certificate, as
//! NATS servers do.

use std::collections::HashMap;
use std::io;
use std::net::IpAddr;
use std::sync::{Arc, OnceLock};

use async_nats::rustls::client::WebPkiServerVerifier;
use async_nats::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use async_nats::rustls::crypto::{CryptoProvider, aws_lc_rs};
use async_nats::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use async_nats::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The names by which addresses were found.
#[derive(Debug)]
pub(super) struct ByName {
    names: HashMap<IpAddr, Vec<ServerName<'static>>>,
    provider: Arc<CryptoProvider>,
    /// Made with the first handshake, because most connections to a broker have no TLS and reading certificates takes a while.
    verifier: OnceLock<Result<Arc<WebPkiServerVerifier>, Error>>,
}

impl Default for ByName {
    fn default() -> Self {
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()));
        Self { names: HashMap::new(), provider, verifier: OnceLock::new() }
    }
}

impl ByName {
    /// Notes that a host of the URL has this address.
    pub(super) fn insert(&mut self, address: IpAddr, host: &str) {
        if let Ok(name) = ServerName::try_from(host.to_owned()) {
            self.names.entry(address).or_default().push(name);
        }
    }

    /// Returns the settings of TLS, with the operating system's certificates of authorities.
    pub(super) fn config(self) -> io::Result<ClientConfig> {
        let builder =
            ClientConfig::builder_with_provider(Arc::clone(&self.provider)).with_safe_default_protocol_versions();
        let builder = builder.map_err(io::Error::other)?;
        Ok(builder.dangerous().with_custom_certificate_verifier(Arc::new(self)).with_no_client_auth())
    }

    fn verifier(&self) -> Result<&WebPkiServerVerifier, Error> {
        let made = self.verifier.get_or_init(|| {
            let mut roots = RootCertStore::empty();
            roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
            let builder = WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&self.provider));
            builder.build().map_err(|error| Error::General(error.to_string()))
        });
        made.as_deref().map_err(Clone::clone)
    }
}

impl ServerCertVerifier for ByName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        address: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let verifier = self.verifier()?;
        let verify =
            |name: &ServerName<'_>| verifier.verify_server_cert(end_entity, intermediates, name, ocsp_response, now);
        let names = match address {
            ServerName::IpAddress(address) => self.names.get(&IpAddr::from(*address)),
            _ => None,
        };
        // Each of them leads to this address.
        let mut names = names.into_iter().flatten();
        let first = names.next().map_or_else(|| verify(address), verify);
        names.fold(first, |verified, name| verified.or_else(|_| verify(name)))
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.verifier()?.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
