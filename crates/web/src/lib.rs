//! The pages for people: rendered on the server inside one shell, with live updates in conversations.
//!
//! A page is a handler and a template. The handler takes the visitor ([`visitor`]), calls acts of
//! `chorus_app`, and renders. It knows neither the store nor a door. The hub mounts [`public`], [`sign_in`]
//! and [`own`] behind its middleware, which has authenticated the caller and refused cross-site requests.
//!
//! Invariants: every asset is embedded, and its name changes with its content. Nothing is loaded from other
//! hosts. The Content-Security-Policy forbids inline scripts and styles. User text passes through a template,
//! which escapes it, or through [`markdown`], which emits only its own markup.

#![expect(missing_docs, reason = "an internal crate: only items that need an explanation have one")]

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
use chorus_node::AppState;

/// The first page and the assets, open to everybody. A stale session does not prevent them.
pub fn public() -> Router<AppState> {
    pages::first::routes().merge(assets::routes()).merge(pages::choir::public())
}

/// The pages for signing in.
pub fn sign_in() -> Router<AppState> {
    pages::signin::routes()
}

/// The pages of a signed-in person. Other visitors are redirected to the sign-in page.
pub fn own() -> Router<AppState> {
    pages::own()
}
