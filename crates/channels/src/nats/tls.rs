//! [`ByName`]: verifies the certificate of a server by the name in the URL, where the client connects to a relay.
//!
//! The client would compare the certificate with the address of the relay. It sends no name to the server (SNI), so a server must have one
//! certificate, as NATS servers do.

use std::io;
use std::sync::{Arc, OnceLock};

use async_nats::rustls::client::WebPkiServerVerifier;
use async_nats::rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use async_nats::rustls::crypto::{CryptoProvider, aws_lc_rs};
use async_nats::rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use async_nats::rustls::{ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};

/// The name of the server to which a relay leads.
#[derive(Debug)]
pub(super) struct ByName {
    /// `None`: it is none that a certificate can have.
    name: Option<ServerName<'static>>,
    provider: Arc<CryptoProvider>,
    /// Made with the first handshake, because most connections to a broker have no TLS and reading certificates takes a while.
    verifier: OnceLock<Result<Arc<WebPkiServerVerifier>, Error>>,
}

impl ByName {
    /// `host`: a name, or an address, of version 6 in brackets.
    pub(super) fn new(host: &str) -> Self {
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let provider = CryptoProvider::get_default().cloned();
        let provider = provider.unwrap_or_else(|| Arc::new(aws_lc_rs::default_provider()));
        Self { name: ServerName::try_from(host.to_owned()).ok(), provider, verifier: OnceLock::new() }
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
        relay: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let name = self.name.as_ref().unwrap_or(relay);
        self.verifier()?.verify_server_cert(end_entity, intermediates, name, ocsp_response, now)
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
