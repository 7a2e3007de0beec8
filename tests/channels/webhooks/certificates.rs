//! Certificates of these tests, and a receiver over TLS that uses them.

use std::net::SocketAddr;
use std::sync::Arc;

use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DistinguishedName, DnType, IsCa, KeyPair, date_time_ymd,
};
use test_support::raw::Raw;
use test_support::sending::Calls;
use tokio::io::copy_bidirectional;
use tokio::net::TcpStream;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

/// An authority.
pub struct Authority(CertifiedIssuer<'static, KeyPair>);

/// A certificate with its key.
pub struct Issued {
    pub certificate: rcgen::Certificate,
    pub key: KeyPair,
}

impl Authority {
    /// A fresh one.
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "authority of tests");
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// Its certificate.
    pub fn pem(&self) -> String {
        self.0.pem()
    }

    /// A certificate for this host.
    pub fn issue(&self, host: &str) -> Issued {
        self.issue_with(host, |_| {})
    }

    /// A certificate that ended long ago.
    pub fn issue_expired(&self, host: &str) -> Issued {
        self.issue_with(host, |params| {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2021, 1, 1);
        })
    }

    fn issue_with(&self, host: &str, change: impl FnOnce(&mut CertificateParams)) -> Issued {
        let mut params = CertificateParams::new([host.to_owned()]).unwrap();
        change(&mut params);
        let key = KeyPair::generate().unwrap();
        Issued { certificate: params.signed_by(&key, &self.0).unwrap(), key }
    }
}

/// What a server over TLS needs. `clients`: the authority of the clients' certificates, if it requires them.
pub fn server_config(issued: &Issued, clients: Option<&Authority>) -> ServerConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder =
        ServerConfig::builder_with_provider(Arc::clone(&provider)).with_safe_default_protocol_versions().unwrap();
    let builder = match clients {
        None => builder.with_no_client_auth(),
        Some(authority) => {
            let mut roots = RootCertStore::empty();
            roots.add(authority.0.der().clone()).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
            builder.with_client_cert_verifier(verifier)
        }
    };
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(issued.key.serialize_der()));
    builder.with_single_cert(vec![issued.certificate.der().clone()], key).unwrap()
}

/// A server over TLS that passes what it decrypts on to a receiver without TLS.
pub async fn in_front_of(receiver: SocketAddr, issued: &Issued) -> Raw {
    let acceptor = TlsAcceptor::from(Arc::new(server_config(issued, None)));
    Raw::serving(move |stream| {
        let acceptor = acceptor.clone();
        async move {
            let Ok(mut stream) = acceptor.accept(stream).await else { return };
            let _ = copy_bidirectional(&mut stream, &mut TcpStream::connect(receiver).await.unwrap()).await;
        }
    })
    .await
}

/// A receiver over TLS that answers 200. `clients`: the authority of the clients' certificates, if it requires them. It notes the version
/// of HTTP of each request.
pub async fn receiver(issued: &Issued, clients: Option<&Authority>) -> (Raw, Calls<hyper::Version>) {
    let mut config = server_config(issued, clients);
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (acceptor, versions) = (TlsAcceptor::from(Arc::new(config)), Calls::default());
    let noted = versions.clone();
    let raw = Raw::serving(move |stream| {
        let (acceptor, noted) = (acceptor.clone(), noted.clone());
        async move {
            let Ok(stream) = acceptor.accept(stream).await else { return };
            let service = service_fn(move |request: Request<Incoming>| {
                noted.note(request.version());
                async { Ok::<_, std::convert::Infallible>(Response::new("taken".to_owned())) }
            });
            let _ = auto::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), service).await;
        }
    })
    .await;
    (raw, versions)
}
