//! TLS for the PostgreSQL client, over rustls: the certificate and the host's name are always checked.

use postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use rustls::client::danger::ServerCertVerifier;
use rustls::client::{ClientConfig, WebPkiServerVerifier};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, RootCertStore};
use rustls_platform_verifier::Verifier;
use std::error::Error;
use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;

type Cause = Box<dyn Error + Send + Sync>;

/// Makes connections that trust the machine's certificates, or those of one file.
#[derive(Clone)]
pub(super) struct Tls(TlsConnector);

impl Tls {
    pub(super) fn new(roots: Option<&Path>) -> Result<Self, Cause> {
        // Named here, so that nothing depends on who installed which for the process.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier: Arc<dyn ServerCertVerifier> = match roots {
            Some(file) => {
                let roots = read_roots(file)
                    .map_err(|error| format!("cannot use sslrootcert {}: {error}", file.display()))?;
                WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build()?
            }
            None => Arc::new(Verifier::new(Arc::clone(&provider)).map_err(|error| {
                format!("{error}; are CA certificates installed (Debian: ca-certificates)?")
            })?),
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .dangerous()
            .with_custom_certificate_verifier(verifier)
            .with_no_client_auth();
        Ok(Self(Arc::new(config).into()))
    }
}

fn read_roots(file: &Path) -> Result<RootCertStore, Cause> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(file)? {
        roots.add(certificate?)?;
    }
    if roots.is_empty() { Err("there is no certificate in it".into()) } else { Ok(roots) }
}

/// Returns the cause of a failed connection, with advice if TLS is the reason.
pub(super) fn explain(error: postgres::Error) -> Cause {
    let first: &(dyn Error + 'static) = &error;
    let causes: Vec<_> = std::iter::successors(Some(first), |&cause| cause.source()).collect();
    let told = causes.iter().map(ToString::to_string).collect::<Vec<_>>();
    // The handshake's own error is inside of one of the connection.
    let refused = causes.iter().find_map(|cause| {
        let cause = cause.downcast_ref::<io::Error>()?.get_ref()?;
        cause.downcast_ref::<rustls::Error>()
    });
    let hint = match refused {
        // A bad signature is that of another authority of the same name.
        Some(rustls::Error::InvalidCertificate(
            CertificateError::UnknownIssuer | CertificateError::BadSignature,
        )) => {
            "nobody this machine trusts has signed the server's certificate: name the CA's certificate with \
             sslrootcert=FILE in the database URL"
        }
        Some(rustls::Error::InvalidCertificate(
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
        )) => {
            "the server's certificate is for another host: use a name that stands in it in the database URL"
        }
        Some(rustls::Error::InvalidCertificate(_)) => "the server's certificate is not valid: replace it",
        _ if told.iter().any(|told| told.contains("server does not support TLS")) => {
            "the server offers no TLS: turn it on there (ssl = on), or, if the network to it is yours alone, say \
             sslmode=disable in the database URL"
        }
        _ => return error.into(),
    };
    format!("{hint} ({})", told.join(": ")).into()
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> MakeTlsConnect<S> for Tls {
    type Stream = Encrypted<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Handshake, io::Error> {
        // A Unix socket has no name; it is asked for only where there is a handshake.
        Ok(Handshake { connector: self.0.clone(), host: host.to_owned() })
    }
}

pub(super) struct Handshake {
    connector: TlsConnector,
    host: String,
}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> TlsConnect<S> for Handshake {
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move {
            let name = ServerName::try_from(self.host).map_err(io::Error::other)?;
            let stream = self.connector.connect(name, stream).await?;
            Ok(Encrypted(Box::new(stream)))
        })
    }
}

pub(super) struct Encrypted<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut *self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut *self.0).poll_shutdown(cx)
    }
}
