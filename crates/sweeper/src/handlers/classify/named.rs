//! The name of an error's type, which records of attempts show. A box hides the type of what is in it, so the names of types that errors
//! often have are found by trying each of them.

use std::any::{TypeId, type_name};
use std::borrow::Cow;
use std::error::Error as StdError;

use solid_notify_core::error::BoxError;

use super::cause::{Cause, chain};
use super::http::HttpStatus;

/// Returns the name of the type `E`. Of a box and of `anyhow::Error`, it is the type of the innermost error of the chain that can be named;
/// `None` for a text.
pub(crate) fn error_type<E: 'static>(error: Cause<'_>) -> Option<&'static str> {
    let texts = [TypeId::of::<String>(), TypeId::of::<&'static str>(), TypeId::of::<Cow<'static, str>>()];
    let boxes = [TypeId::of::<BoxError>(), TypeId::of::<Box<dyn StdError>>(), TypeId::of::<Box<dyn StdError + Send>>()];
    let own = TypeId::of::<E>();
    if texts.contains(&own) {
        return None;
    }
    #[cfg(feature = "anyhow")]
    if own == TypeId::of::<anyhow::Error>() {
        return innermost(error).or(Some("anyhow::Error"));
    }
    if boxes.contains(&own) { innermost(error) } else { Some(type_name::<E>()) }
}

fn innermost(error: Cause<'_>) -> Option<&'static str> {
    chain(error).filter_map(name).last()
}

/// Returns the name of the type of this one error, if it is a known one.
fn name(error: Cause<'_>) -> Option<&'static str> {
    macro_rules! first_of {
        ($($(#[$feature:meta])? $known:ty),+ $(,)?) => {
            $($(#[$feature])? if error.is::<$known>() { return Some(type_name::<$known>()); })+
        };
    }
    first_of!(
        std::io::Error,
        std::fmt::Error,
        std::env::VarError,
        std::num::ParseIntError,
        std::num::ParseFloatError,
        std::num::TryFromIntError,
        std::str::Utf8Error,
        std::string::FromUtf8Error,
        std::time::SystemTimeError,
        tokio::time::error::Elapsed,
        tokio::task::JoinError,
        serde_json::Error,
        chrono::ParseError,
        url::ParseError,
        HttpStatus,
        solid_notify_core::Error,
        solid_notify_core::StoreError,
        #[cfg(any(feature = "postgres", feature = "mysql", feature = "sqlite"))]
        sqlx::Error,
        #[cfg(feature = "reqwest")]
        reqwest::Error,
        #[cfg(feature = "lettre")]
        lettre::error::Error,
        #[cfg(feature = "lettre")]
        lettre::address::AddressError,
        #[cfg(feature = "lettre")]
        lettre::transport::smtp::Error,
        #[cfg(feature = "lapin")]
        lapin::Error,
        #[cfg(feature = "async-nats")]
        async_nats::ConnectError,
        #[cfg(feature = "async-nats")]
        async_nats::PublishError,
        #[cfg(feature = "async-nats")]
        async_nats::RequestError,
        #[cfg(feature = "async-nats")]
        async_nats::jetstream::context::PublishError,
    );
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Failure;

    /// An error of an application, with a cause.
    #[derive(Debug)]
    struct Outer(BoxError);

    impl std::fmt::Display for Outer {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("sending failed")
        }
    }

    impl StdError for Outer {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&*self.0)
        }
    }

    fn refused() -> std::io::Error {
        std::io::Error::from(std::io::ErrorKind::ConnectionRefused)
    }

    fn type_of(failure: impl Into<Failure>) -> Option<&'static str> {
        failure.into().error_type
    }

    #[test]
    fn boxed_error_is_named_by_its_innermost_known_type() {
        let io = Some("std::io::error::Error");
        assert_eq!(type_of(refused()), io);
        assert_eq!(type_of(Box::new(refused()) as BoxError), io);
        assert_eq!(type_of(Box::new(Outer(refused().into())) as BoxError), io);
        // What a handler's `?` does in a function that returns a box.
        let parsed = || -> Result<i64, BoxError> { Ok("x".parse::<i64>()?) };
        assert_eq!(type_of(parsed().unwrap_err()), Some("core::num::error::ParseIntError"));
        let inside = std::io::Error::other(serde_json::from_str::<i64>("x").unwrap_err());
        assert_eq!(type_of(Box::new(inside) as BoxError), Some("serde_json::error::Error"));
        assert_eq!(type_of(Box::new(Outer("busy".into())) as BoxError), None);
        for text in [type_of("busy"), type_of("busy".to_owned()), type_of(BoxError::from("busy"))] {
            assert_eq!(text, None);
        }
        assert_eq!(type_of(Outer(refused().into())), Some(type_name::<Outer>()), "its own name is known");
    }

    #[cfg(feature = "anyhow")]
    #[test]
    fn error_in_anyhow_is_named_by_its_innermost_known_type() {
        let booking = || anyhow::Error::new(refused()).context("asking OMP").context("booking");
        assert_eq!(type_of(booking()), Some("std::io::error::Error"));
        assert_eq!(
            type_of(Failure::give_up(booking()).class(solid_notify_core::ErrorClass::Auth)),
            Some("std::io::error::Error")
        );
        assert_eq!(type_of(anyhow::Error::new(Outer(sqlx_error()))), Some("sqlx_core::error::Error"));
        assert_eq!(type_of(anyhow::anyhow!("busy")), Some("anyhow::Error"));
        let status = anyhow::Error::new(HttpStatus(403)).context("booking");
        assert_eq!(type_of(status), Some(type_name::<HttpStatus>()));
    }

    #[cfg(feature = "anyhow")]
    fn sqlx_error() -> BoxError {
        sqlx::Error::RowNotFound.into()
    }
}
