//! Work whose length is that of a parameter, a text or a file: on a large one it is done off the runtime, as costly templates are.

use solid_notify_sweeper::Failure;

use crate::channel::AnyNotice;

/// From how many bytes on.
const LARGE: usize = 32 * 1024;

/// Does work on so many bytes: on large ones on a thread that may block, in turn with that of other definitions.
///
/// # Errors
/// It panicked, or the runtime ends.
pub(crate) async fn on<T: Send + 'static>(
    notice: &AnyNotice,
    bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    if bytes <= LARGE {
        return Ok(work());
    }
    let computing = notice.outbox().engine().computing().run(notice.definition(), move || Ok(work()));
    // Boxed, because each attempt would have a place for its state.
    Box::pin(computing).await.map_err(|error| Failure::retry(error).free_of_values())
}
