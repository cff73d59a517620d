//! The handler of MCP clients, shared by `stdio` and `/mcp`.

use std::sync::Arc;

use axum::http::request::Parts;
use coracle_core::{Cancel, Error, Result};
use coracle_engine::Engine;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CompleteRequestMethod, CompleteRequestParams,
    CompleteResult, ConstString, Implementation, ListPromptsRequestMethod, ListPromptsResult,
    ListResourceTemplatesRequestMethod, ListResourceTemplatesResult, ListResourcesRequestMethod,
    ListResourcesResult, ListToolsResult, PaginatedRequestParams, ReadResourceRequestMethod,
    ReadResourceRequestParams, ReadResourceResponse, ReadResourceResult, ServerCapabilities, ServerConfig,
    Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;
use tracing::Instrument;

use super::call::Call;
use super::calls::{Calls, Name, Registered};
use super::identity::Identity;
use super::opened_sandboxes::Opened;
use super::progress::Beats;
use super::toolbox::Toolbox;
use super::{answer, resources};
use coracle_service::Deadline;
use coracle_service::reply::sandbox_in;
use coracle_service::telemetry::doors::{self, Origin};
use coracle_service::telemetry::{self, Came};

/// How long a client may cache the list of tools. It changes when the server is started with other flags, and then
/// the client of `stdio` starts it anew, too.
const FRESH_MS: u64 = 60_000;

const INSTRUCTIONS: &str = "\
Sandboxes for running code. `sandbox_open` returns a `sandbox_id` that all other tools take; files are kept in \
/workspace until `sandbox_close`. A command is a list of words and no shell reads it: use [\"sh\", \"-c\", \"…\"] for \
one. Commands that take long are started with `stream: true`; `sandbox_exec_read` with `since_seq` returns their \
output and `sandbox_exec_wait` their end. A command that exits with another code than 0 is a result, not an error. \
An error has a `kind` and a `hint` that says what to do.";

/// The operation that reads resources.
const READ: &str = "sandbox_fs_read";

/// Serves the tools of one toolbox. Cheap to clone; all clones are the same server.
#[derive(Debug, Clone)]
pub struct Server {
    engine: Engine,
    identity: Arc<Identity>,
    toolbox: Arc<Toolbox>,
    calls: Calls,
    opened: Opened,
    /// The session under which other requests can cancel its calls.
    session: Option<String>,
    /// When its requests have to be answered.
    deadline: Deadline,
}

impl Server {
    pub fn new(engine: Engine, identity: Identity, toolbox: Toolbox) -> Self {
        let (identity, toolbox) = (Arc::new(identity), Arc::new(toolbox));
        let (calls, opened) = (Calls::default(), Opened::default());
        Self { engine, identity, toolbox, calls, opened, session: None, deadline: Deadline::default() }
    }

    /// Counts its calls together with others of the same client.
    pub fn counting(mut self, calls: Calls, session: Option<impl ToString>) -> Self {
        self.calls = calls;
        self.session = session.map(|session| session.to_string());
        self
    }

    /// Has its requests end at a deadline.
    pub fn until(self, deadline: Deadline) -> Self {
        Self { deadline, ..self }
    }

    /// Returns the sandboxes that were made for its client.
    pub fn opened(&self) -> &Opened {
        &self.opened
    }

    pub fn calls(&self) -> &Calls {
        &self.calls
    }

    /// Files can be read as resources where the toolbox has the tool for it.
    fn has_resources(&self) -> bool {
        self.toolbox.find(READ).is_some()
    }

    fn expect_resources<Method: ConstString>(&self) -> Result<(), ErrorData> {
        match self.has_resources() {
            true => Ok(()),
            false => Err(ErrorData::method_not_found::<Method>()),
        }
    }

    async fn read(&self, uri: String) -> Result<ReadResourceResult> {
        self.identity.may(READ)?;
        let (place, engine, caller) =
            (self.calls.enter()?, self.engine.clone(), self.identity.caller().clone());
        let read = telemetry::carried(move || {
            let _place = place;
            resources::read(&engine, &caller, &uri)
        });
        self.deadline
            .bound(tokio::task::spawn_blocking(read))
            .await?
            .map_err(|error| Error::internal("the file could not be read", error))?
    }

    /// Has an operation carried out, and logs its outcome.
    async fn call(
        &self,
        operation: &'static str,
        input: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value> {
        let noting = self.identity.note(operation, sandbox_in(&input));
        let outcome = self.perform(operation, input, context).await;
        noting.conclude(outcome.as_ref().ok().and_then(sandbox_in), outcome)
    }

    async fn perform(
        &self,
        operation: &'static str,
        input: Value,
        context: &RequestContext<RoleServer>,
    ) -> Result<Value> {
        self.identity.may(operation)?;
        self.toolbox.check(operation, &input)?;
        let _place = self.calls.enter()?;
        let named = |session: &String| {
            self.calls.register(Name { session: session.clone(), request: context.id.clone() })
        };
        let registered = self.session.as_ref().map(named);
        let cancel = Cancel::default();
        // A client of `/mcp` that leaves stops its command, so the end of the daemon does.
        let _ends = self.identity.daemon().map(|service| service.ending().include(&cancel));
        let mut call = Call {
            engine: self.engine.clone(),
            caller: self.identity.caller().clone(),
            operation,
            input,
            cancel,
            deadline: self.deadline.instant(),
            // The client cancels the call, or is gone.
            interest: self
                .calls
                .interest(registered.iter().map(Registered::token).chain([context.ct.clone()])),
            opened: self.opened.clone(),
        };
        self.identity.complete(operation, &mut call.input);
        let token = context.meta.get_progress_token();
        let beats = token.map(|token| Beats { peer: context.peer.clone(), token });
        call.carry_out(beats).await
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let capabilities = ServerCapabilities::builder().enable_tools();
        let capabilities = match self.has_resources() {
            true => capabilities.enable_resources().build(),
            false => capabilities.build(),
        };
        let name = Implementation::new("coracle", env!("CARGO_PKG_VERSION"))
            .with_title("coracle")
            .with_description("Sandboxes for AI agents");
        let config = ServerConfig::new(capabilities).with_server_info(name);
        match self.toolbox.all().is_empty() {
            true => config,
            false => config.with_instructions(INSTRUCTIONS),
        }
    }

    async fn list_tools(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        first_page(request)?;
        let granted = |tool: &&Tool| self.identity.may(&tool.name).is_ok();
        let tools = self.toolbox.all().iter().filter(granted).cloned().collect();
        let mut listed = ListToolsResult::with_all_items(tools);
        listed.ttl_ms = Some(FRESH_MS);
        listed.cache_scope = Some(CacheScope::Private);
        Ok(listed)
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.toolbox.find(name).cloned()
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let operation = operation(&self.toolbox, &request.name)?;
        let input = Value::Object(request.arguments.unwrap_or_default());
        let outcome =
            self.call(operation, input, &context).instrument(doors::tool(operation, origin(&context))).await;
        Ok(answer::of(outcome).into())
    }

    async fn list_resources(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourcesResult, ErrorData> {
        self.expect_resources::<ListResourcesRequestMethod>()?;
        first_page(request)?;
        // There may be millions; a client that knows a path uses the template.
        Ok(ListResourcesResult::with_all_items(Vec::new()))
    }

    async fn list_resource_templates(
        &self,
        request: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListResourceTemplatesResult, ErrorData> {
        self.expect_resources::<ListResourceTemplatesRequestMethod>()?;
        first_page(request)?;
        Ok(ListResourceTemplatesResult::with_all_items(vec![resources::template()]))
    }

    // Unsupported methods are refused: clients would take an empty list for support.
    async fn list_prompts(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListPromptsResult, ErrorData> {
        Err(ErrorData::method_not_found::<ListPromptsRequestMethod>())
    }

    async fn complete(
        &self,
        _: CompleteRequestParams,
        _: RequestContext<RoleServer>,
    ) -> Result<CompleteResult, ErrorData> {
        Err(ErrorData::method_not_found::<CompleteRequestMethod>())
    }

    async fn read_resource(
        &self,
        request: ReadResourceRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<ReadResourceResponse, ErrorData> {
        self.expect_resources::<ReadResourceRequestMethod>()?;
        let noting = self.identity.note(READ, resources::sandbox_in(&request.uri));
        let outcome = self.read(request.uri.clone()).instrument(doors::resource(origin(&context))).await;
        let read = noting.conclude(None, outcome);
        read.map(Into::into).map_err(|error| resources::failed(&request.uri, &error))
    }
}

/// Returns the origin of a message.
fn origin(context: &RequestContext<RoleServer>) -> Origin<'_> {
    let came = context.extensions.get::<Parts>().and_then(|parts| parts.extensions.get::<Came>());
    Origin { traceparent: context.meta.get("traceparent").and_then(Value::as_str), came }
}

/// Returns the operation of a tool. One outside this toolbox looks like one that does not exist.
fn operation(toolbox: &Toolbox, name: &str) -> Result<&'static str, ErrorData> {
    toolbox.facts(name).map(|facts| facts.name).ok_or_else(|| {
        let shown: String = name.escape_debug().take(64).collect();
        ErrorData::invalid_params(format!("there is no tool `{shown}`"), None)
    })
}

/// Everything is on one page, so a cursor is made up.
fn first_page(request: Option<PaginatedRequestParams>) -> Result<(), ErrorData> {
    match request.and_then(|request| request.cursor) {
        None => Ok(()),
        Some(_) => Err(ErrorData::invalid_params("there is only one page, and it has no cursor", None)),
    }
}
