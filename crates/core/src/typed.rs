//! [`Definition`]: the name of a definition together with the type of its parameter.

use std::marker::PhantomData;

/// The name of a definition with the type of its parameter, as a constant of the application. The name is written once, and
/// a parameter or a handler of another type does not compile.
///
/// ```
/// use serde::{Deserialize, Serialize};
/// use solid_notify_core::{Definition, NoticeConnection, NotifyDef, Receipt, Result, add_notice};
///
/// #[derive(Serialize, Deserialize)]
/// struct Invoice {
///     number: u32,
/// }
///
/// const MAIL_INVOICE: Definition<Invoice> = Definition::new("mail_invoice");
///
/// fn row() -> NotifyDef {
///     NotifyDef::new(MAIL_INVOICE).retry_interval("[5s,5m,1h,1d]")
/// }
///
/// async fn send_invoice(tx: &mut impl NoticeConnection, number: u32) -> Result<Receipt> {
///     add_notice(tx, MAIL_INVOICE, Invoice { number }).await
/// }
/// ```
///
/// Another type of parameter is an error of the compiler:
///
/// ```compile_fail,E0277
/// use solid_notify_core::{Definition, NewNotice};
///
/// const MAIL_INVOICE: Definition<u32> = Definition::new("mail_invoice");
/// let notice = NewNotice::new(MAIL_INVOICE, "seven");
/// ```
pub struct Definition<T> {
    name: &'static str,
    param: PhantomData<fn(T) -> T>,
}

impl<T> Definition<T> {
    /// Returns the definition `name`, whose notices have a parameter of type `T`.
    pub const fn new(name: &'static str) -> Self {
        Self { name, param: PhantomData }
    }

    /// Returns its name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<T> Clone for Definition<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Definition<T> {}

impl<T> std::fmt::Debug for Definition<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Definition").field(&self.name).finish()
    }
}

impl<T> From<Definition<T>> for String {
    fn from(definition: Definition<T>) -> Self {
        definition.name.to_owned()
    }
}

/// A name of a definition that takes a parameter of type `P`: a text (any type), or a [`Definition`] (its own type, by value or
/// by reference).
#[diagnostic::on_unimplemented(
    message = "the definition `{Self}` does not take a parameter of type `{P}`",
    note = "a `Definition<T>` takes a `T` or a `&T`"
)]
pub trait DefinitionName<P> {
    /// Returns the name.
    fn into_name(self) -> String;
}

impl<P> DefinitionName<P> for &str {
    fn into_name(self) -> String {
        self.to_owned()
    }
}

impl<P> DefinitionName<P> for &String {
    fn into_name(self) -> String {
        self.clone()
    }
}

impl<P> DefinitionName<P> for String {
    fn into_name(self) -> String {
        self
    }
}

impl<T> DefinitionName<T> for Definition<T> {
    fn into_name(self) -> String {
        self.into()
    }
}

impl<T> DefinitionName<&T> for Definition<T> {
    fn into_name(self) -> String {
        self.into()
    }
}
