//! Whose lines a thread logs: those of a database, or of the process itself.

use std::cell::RefCell;
use std::pin::pin;
use std::sync::Arc;

/// The name of a database; `None`: the process itself.
pub(crate) type Owner = Option<Arc<str>>;

thread_local! {
    static OWNER: RefCell<Owner> = const { RefCell::new(None) };
}

/// Makes this a thread that logs for a database, until it ends.
pub(crate) fn thread_logs_for(database: &Arc<str>) {
    OWNER.set(Some(Arc::clone(database)));
}

/// Does work for a database on threads that serve several.
pub(crate) async fn lines_of<T>(database: &str, work: impl Future<Output = T>) -> T {
    /// Gives the thread back to its owner, also where the work panics.
    struct Before(Owner);
    impl Drop for Before {
        fn drop(&mut self) {
            OWNER.set(self.0.take());
        }
    }
    let owner: Arc<str> = database.into();
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        let _before = Before(OWNER.replace(Some(Arc::clone(&owner))));
        work.as_mut().poll(context)
    })
    .await
}

/// Returns for whom this thread logs now.
pub(super) fn of_this_thread() -> Owner {
    // A thread that ends has no such value any more.
    OWNER.try_with(|owner| owner.borrow().clone()).unwrap_or_default()
}
