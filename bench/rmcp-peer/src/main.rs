//! The reference of `bench/run mcp`: a server of the official SDK whose only tool does nothing.
//!
//! It serves the SDK's fastest way: no sessions, plain JSON, its tools described once. It looks at no key, keeps
//! nothing, and ends when it is killed.

use axum::serve::ListenerExt;
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ServerHandler, schemars, tool, tool_handler, tool_router};
use std::sync::Arc;
use tokio::net::TcpListener;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct EchoInput {
    text: String,
}

#[derive(Clone)]
struct Peer {
    tools: Arc<ToolRouter<Self>>,
}

#[tool_router]
impl Peer {
    #[tool(description = "Says what it was told")]
    async fn echo(&self, Parameters(EchoInput { text }): Parameters<EchoInput>) -> String {
        text
    }
}

#[tool_handler(router = self.tools)]
impl ServerHandler for Peer {}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let peer = Peer { tools: Arc::new(Peer::tool_router()) };
    let config =
        StreamableHttpServerConfig::default().with_legacy_session_mode(false).with_json_response(true);
    let service = StreamableHttpService::new(
        move || Ok(peer.clone()),
        Arc::new(NeverSessionManager::default()),
        config,
    );
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    // The ready line that `chorus-bench` waits for, as with a hub.
    println!("chorus listening on http://{}", listener.local_addr()?);
    let listener = listener.tap_io(|stream| {
        // As the hub does it.
        stream.set_nodelay(true).ok();
    });
    axum::serve(listener, axum::Router::new().route_service("/mcp", service)).await
}
