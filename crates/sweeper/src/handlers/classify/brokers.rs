//! The classes of the errors of the AMQP client (lapin) and of the NATS client (async-nats).

use super::cause::{Cause, TypeClass};

pub(super) fn class(error: Cause<'_>) -> Option<TypeClass> {
    amqp(error).or_else(|| nats(error))
}

#[cfg(not(feature = "lapin"))]
fn amqp(_: Cause<'_>) -> Option<TypeClass> {
    None
}

#[cfg(feature = "lapin")]
fn amqp(error: Cause<'_>) -> Option<TypeClass> {
    use lapin::ErrorKind;
    use solid_notify_core::ErrorClass;

    let class = match error.downcast_ref::<lapin::Error>()?.kind() {
        ErrorKind::ProtocolError(reply) => return class_of_reply(reply.get_id()).map(TypeClass::Surely),
        ErrorKind::ChannelsLimitReached => ErrorClass::Busy,
        ErrorKind::AuthProviderError(_) => ErrorClass::Auth,
        // A request that cannot be serialised into a frame.
        ErrorKind::SerialisationError(_) => ErrorClass::Invalid,
        ErrorKind::MissingHeartbeatError
        | ErrorKind::InvalidChannel(_)
        | ErrorKind::InvalidChannelState(..)
        | ErrorKind::InvalidConnectionState(_) => ErrorClass::Network,
        // Its cause has the kind of the I/O error.
        ErrorKind::IOError(_) => return Some(TypeClass::Perhaps(ErrorClass::Network)),
        _ => return None,
    };
    Some(TypeClass::Surely(class))
}

/// Classifies by the reply code of AMQP 0-9-1 (its reference, section 1.1).
#[cfg(feature = "lapin")]
fn class_of_reply(code: u16) -> Option<solid_notify_core::ErrorClass> {
    use solid_notify_core::ErrorClass;

    Some(match code {
        // Access refused; not allowed (a virtual host).
        403 | 530 => ErrorClass::Auth,
        // No route, a virtual host's path, no such exchange or queue.
        312 | 402 | 404 => ErrorClass::NotFound,
        // No consumers; an operator closes connections; an internal error.
        313 | 320 | 541 => ErrorClass::Unavailable,
        // A locked resource; resources are used up.
        405 | 506 => ErrorClass::Busy,
        // Too large; a precondition failed; not implemented.
        311 | 406 | 540 => ErrorClass::Invalid,
        _ => return None,
    })
}

#[cfg(not(feature = "async-nats"))]
fn nats(_: Cause<'_>) -> Option<TypeClass> {
    None
}

#[cfg(feature = "async-nats")]
fn nats(error: Cause<'_>) -> Option<TypeClass> {
    use async_nats::client::{FlushError, PublishError, PublishErrorKind, RequestError, RequestErrorKind};
    use async_nats::jetstream::context::{PublishError as StreamError, PublishErrorKind as StreamErrorKind};
    use async_nats::{ConnectError, ConnectErrorKind};
    use solid_notify_core::ErrorClass;

    let class = if let Some(error) = error.downcast_ref::<StreamError>() {
        match error.kind() {
            // Nothing responds for the subject: there is no stream, or a server that has just started does not have it yet.
            StreamErrorKind::StreamNotFound => ErrorClass::Unavailable,
            StreamErrorKind::WrongLastMessageId
            | StreamErrorKind::WrongLastSequence
            | StreamErrorKind::MaxPayloadExceeded => ErrorClass::Invalid,
            StreamErrorKind::TimedOut => ErrorClass::Timeout,
            StreamErrorKind::BrokenPipe => ErrorClass::Network,
            StreamErrorKind::MaxAckPending => ErrorClass::Busy,
            StreamErrorKind::Other => return None,
        }
    } else if let Some(error) = error.downcast_ref::<PublishError>() {
        match error.kind() {
            PublishErrorKind::MaxPayloadExceeded | PublishErrorKind::InvalidSubject => ErrorClass::Invalid,
            PublishErrorKind::Send => ErrorClass::Network,
        }
    } else if let Some(error) = error.downcast_ref::<RequestError>() {
        match error.kind() {
            RequestErrorKind::TimedOut => ErrorClass::Timeout,
            // The responder may be starting.
            RequestErrorKind::NoResponders => ErrorClass::Unavailable,
            RequestErrorKind::InvalidSubject | RequestErrorKind::MaxPayloadExceeded => ErrorClass::Invalid,
            RequestErrorKind::Other => return None,
        }
    } else if let Some(error) = error.downcast_ref::<ConnectError>() {
        match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => ErrorClass::Auth,
            ConnectErrorKind::TimedOut => ErrorClass::Timeout,
            // An invalid server address is a setting, which a release corrects.
            ConnectErrorKind::ServerParse => return None,
            _ => return Some(TypeClass::Perhaps(ErrorClass::Network)),
        }
    } else if error.is::<FlushError>() {
        ErrorClass::Network
    } else {
        return None;
    };
    Some(TypeClass::Surely(class))
}
