//! The pages for people: one shell, rendered on the server, live where talking is.
//!
//! A page is a handler here and a template: it takes who looks ([`visitor`]), calls acts of `chorus_app`, and renders. It
//! knows no store and no door; the hub mounts [`public`], [`sign_in`] and [`own`] behind its middleware, which has found out who calls
//! and refused what comes from other sites' pages.
//!
//! What always holds: every asset is embedded, and its name changes with its content; nothing is loaded from elsewhere; the
//! Content-Security-Policy forbids whatever is inline; and what anybody said goes through a template, which escapes it, or
//! through [`markdown`], which lets through no markup but its own.

#![expect(missing_docs, reason = "a part of this program, not a library: what a name says is not said again")]

mod assets;
pub mod cookies;
mod extract;
mod face;
mod form;
mod icons;
mod markdown;
mod page;
mod pages;
mod shell;
mod times;
mod upload;
mod visitor;

pub use extract::read_body;
pub use page::{Fault, Rendered};
pub use pages::{nothing, reference};
pub use visitor::OwnPage;

use axum::Router;
use chorus_app::AppState;

/// The first page, for everybody: a key that is stale is no reason to refuse it. And what pages refer to.
pub fn public() -> Router<AppState> {
    pages::first::routes().merge(assets::routes()).merge(pages::choir::public())
}

/// Signing in.
pub fn sign_in() -> Router<AppState> {
    pages::signin::routes()
}

/// Pages of somebody who is signed in; others are sent to sign in.
pub fn own() -> Router<AppState> {
    pages::own()
}
