//! The reference for HTTP: a bare axum server that parses a JSON body and sends it back.
//!
//! A hub also checks the sender, stores durably and delivers.

use axum::Json;
use axum::routing::post;
use axum::serve::ListenerExt;
use serde_json::Value;
use std::io::Write as _;
use std::process::ExitCode;
use tokio::net::TcpListener;

/// Serves on a free port until it is killed.
pub(crate) async fn serve() -> anyhow::Result<ExitCode> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let listener = listener.tap_io(|stream| {
        // Without this option the answers would be delayed by the kernel.
        stream.set_nodelay(true).ok();
    });
    let router = axum::Router::new().route("/messages", post(async |Json(body): Json<Value>| Json(body)));
    writeln!(std::io::stdout(), "{}http://{address}", crate::READY)?;
    axum::serve(listener, router).await?;
    Ok(ExitCode::SUCCESS)
}
