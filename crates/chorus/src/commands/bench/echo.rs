//! The reference for everything that speaks HTTP: a bare axum server that parses a JSON body and sends it back.
//!
//! What a hub does beyond this is who may send, the durable store, and the delivery.

use crate::output;
use axum::Json;
use axum::routing::post;
use axum::serve::ListenerExt;
use serde_json::Value;
use std::process::ExitCode;
use tokio::net::TcpListener;

/// Serves on a free port until it is killed.
pub(crate) async fn serve() -> anyhow::Result<ExitCode> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let listener = listener.tap_io(|stream| {
        // Without it the answers would only be later, which nobody is interested in here.
        stream.set_nodelay(true).ok();
    });
    let router = axum::Router::new().route("/messages", post(async |Json(body): Json<Value>| Json(body)));
    output::data(format_args!("{}http://{address}", super::READY))?;
    axum::serve(listener, router).await?;
    Ok(ExitCode::SUCCESS)
}
