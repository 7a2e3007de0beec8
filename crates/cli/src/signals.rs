//! What the platform asks of a process: to stop, or to read its file again.

/// Ends when the platform asks the process to stop: Ctrl-C, or SIGTERM of systemd, Docker and Kubernetes.
pub(crate) async fn asked_to_stop() {
    #[cfg(unix)]
    let terminated = async {
        match tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()) {
            Ok(mut signal) => signal.recv().await,
            Err(_) => std::future::pending().await,
        }
    };
    #[cfg(not(unix))]
    let terminated = std::future::pending::<Option<()>>();
    tokio::select! {
        _ = tokio::signal::ctrl_c() => {}
        _ = terminated => {}
    }
}

/// SIGHUP. Where there are no signals, it never comes.
pub(crate) struct Reloads {
    #[cfg(unix)]
    signal: Option<tokio::signal::unix::Signal>,
}

impl Reloads {
    /// Listens from now on. A signal that comes before would end the process.
    pub(crate) fn listen() -> Self {
        Self {
            #[cfg(unix)]
            signal: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::hangup()).ok(),
        }
    }

    /// Ends at the next one.
    pub(crate) async fn next(&mut self) {
        #[cfg(unix)]
        if let Some(signal) = &mut self.signal {
            signal.recv().await;
            return;
        }
        std::future::pending::<()>().await;
    }
}
