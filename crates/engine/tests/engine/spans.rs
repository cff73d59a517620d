//! What is told of operations: the same by every way in, and nothing where nobody listens.

use std::cell::RefCell;
use std::sync::Once;
use std::time::{Duration, Instant};

use coracle_core::SandboxId;
use coracle_engine::catalogue::Facts;
use coracle_engine::ops::sandbox::exec;
use coracle_engine::{Call, Engine, ExecRequest, Operation};
use serde_json::json;
use tracing::span::{Attributes, Id};
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::Layer;
use tracing_subscriber::layer::{Context, SubscriberExt};
use tracing_subscriber::registry::LookupSpan;

use crate::world::{World, caller};

thread_local! {
    /// The spans of this thread since somebody wants to know.
    static TOLD: RefCell<Option<Vec<String>>> = const { RefCell::new(None) };
}

/// Writes down every span with those it is in, outermost first.
struct Listener;

impl<S: tracing::Subscriber + for<'span> LookupSpan<'span>> Layer<S> for Listener {
    fn on_new_span(&self, _: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let path = context.span_scope(id).into_iter().flat_map(|scope| scope.from_root());
        let names: Vec<_> = path.map(|span| span.name()).collect();
        TOLD.with_borrow_mut(|told| told.iter_mut().for_each(|told| told.push(names.join(" > "))));
    }
}

fn told_of(deed: impl FnOnce()) -> Vec<String> {
    // One for the process: a span that a thread without a subscriber meets first would be told to no other, either.
    static LISTENING: Once = Once::new();
    LISTENING.call_once(|| {
        let subscriber = tracing_subscriber::registry().with(Listener);
        tracing::subscriber::set_global_default(subscriber).expect("the only one");
    });
    TOLD.set(Some(Vec::new()));
    deed();
    TOLD.take().unwrap_or_default()
}

fn open(world: &World) -> SandboxId {
    let opened = world.ok("run_a", "sandbox_open", json!({}));
    opened["sandbox_id"].as_str().expect("an id").parse().expect("an id")
}

fn echo() -> ExecRequest {
    ExecRequest { argv: vec![b"echo".to_vec(), b"hello".to_vec()], ..ExecRequest::default() }
}

#[test]
fn a_command_is_told_the_same_by_every_way_in() {
    let world = World::new();
    let (id, caller) = (open(&world), caller("run_a"));
    let json = json!({"sandbox_id": id, "cmd": ["echo", "hello"]});
    let input: exec::Input = serde_json::from_value(json.clone()).expect("valid");

    let by_name = told_of(|| drop(world.engine.call(&caller, "sandbox_exec", json)));
    let by_input = told_of(|| drop(world.engine.perform(&caller, input)));
    let by_request = told_of(|| drop(world.engine.execs().run(&caller, &id, &echo())));

    let whole =
        ["operation", "operation > gate admit", "operation > guest connect", "operation > guest exec"];
    assert_eq!(by_name, whole);
    assert_eq!(by_input, whole);
    assert_eq!(by_request, whole);
}

#[test]
fn a_kept_connection_is_admitted_anew_and_not_made_anew() {
    let world = World::new();
    let (id, caller) = (open(&world), caller("run_a"));
    let mut attached = world.engine.execs().attach(&caller, &id).expect("it is the caller's");

    let told = told_of(|| drop(attached.exec(&echo())));

    assert_eq!(told, ["operation", "operation > gate admit", "operation > guest exec"]);
}

/// An operation that costs nothing by itself.
struct Nothing;

impl Operation for Nothing {
    const FACTS: &'static Facts = &exec::FACTS;
    type Output = ();

    fn carry_out(self, _: &Engine, _: &Call) -> coracle_core::Result<()> {
        Ok(())
    }
}

#[test]
fn where_nobody_listens_a_command_costs_what_it_costs() {
    let world = World::new();
    let caller = caller("run_a");
    let rounds: u32 = 100_000;

    let began = Instant::now();
    // The other tests' listener is the process's.
    tracing::subscriber::with_default(NoSubscriber::new(), || {
        for _ in 0..rounds {
            std::hint::black_box(world.engine.perform(&caller, Nothing)).expect("nothing was done");
        }
    });
    let each = began.elapsed() / rounds;

    // A few nanoseconds in an optimised build; this is for builds that are not, on machines that are busy.
    assert!(each < Duration::from_micros(20), "{each:?}");
}
