//! Execs and sandboxes tied to a connection end with it, and nothing else does.

use coracle_wire::{Body, Command, Ending, Reply};

use super::{Sandbox, Subject};
use crate::Client;
use crate::client::command;

/// Ties an exec to a connection of its own.
fn tied(sandbox: &Sandbox<'_>, exec: &str) -> Client {
    let mut client = sandbox.client();
    let tie = Body::Tie { exec: Some(exec.to_owned()), grace_ms: 0 };
    assert_eq!(client.ask(tie), Reply::Done {});
    client
}

fn sleep(tied: bool) -> Command {
    Command { tied: Some(tied), ..command(&["sleep", "600"]) }
}

/// Returns once the guest has handled the end of a connection that ended after all others: the real guest handles
/// them in order.
fn settle(sandbox: &Sandbox<'_>) {
    let tie = tied(sandbox, "exec_last");
    sandbox.client().start("exec_last", sleep(true));
    drop(tie);
    assert_eq!(sandbox.client().end("exec_last").state.ending, Some(Ending::Stopped));
}

fn adopt(tie_grace_ms: Option<u64>) -> Body {
    Body::Adopt { env: Vec::new(), workdir: b"/workspace".to_vec(), ttl_ms: 600_000, tie_grace_ms }
}

fn is_running(sandbox: &Sandbox<'_>, exec: &str) -> bool {
    let Reply::Execs(execs) = sandbox.client().ask(Body::Execs {}) else { panic!("a guest lists its execs") };
    execs.iter().any(|one| one.exec == exec && one.state.ending.is_none())
}

pub fn an_exec_ends_with_the_connection_it_is_tied_to(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let tie = tied(&sandbox, "exec_1");
    sandbox.client().start("exec_1", sleep(true));

    drop(tie);

    assert_eq!(sandbox.client().end("exec_1").state.ending, Some(Ending::Stopped));
}

pub fn what_is_tied_runs_on_the_same_connection(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut client = tied(&sandbox, "exec_1");
    client.start("exec_1", sleep(true));
    assert!(is_running(&sandbox, "exec_1"));

    drop(client);

    assert_eq!(sandbox.client().end("exec_1").state.ending, Some(Ending::Stopped));
}

pub fn an_exec_that_was_started_untied_stays_so(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    sandbox.client().start("exec_1", sleep(false));

    drop(tied(&sandbox, "exec_1"));
    settle(&sandbox);

    assert!(is_running(&sandbox, "exec_1"));
}

pub fn a_tied_start_whose_client_has_gone_is_stopped(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    drop(tied(&sandbox, "exec_1"));
    settle(&sandbox);

    sandbox.client().start("exec_1", sleep(true));

    assert_eq!(sandbox.client().end("exec_1").state.ending, Some(Ending::Stopped));
}

pub fn an_untied_start_under_the_id_of_a_client_that_has_gone_goes_on(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    drop(tied(&sandbox, "exec_1"));

    sandbox.client().start("exec_1", sleep(false));
    settle(&sandbox);

    assert!(is_running(&sandbox, "exec_1"));
    assert!(sandbox.client().start("exec_1", sleep(true)), "a tie does not make another command of it");
}

pub fn a_sandbox_adopted_with_a_tie_ends_with_the_connection(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    let mut bystander = sandbox.client();
    bystander.start("exec_1", sleep(false));
    let mut owner = sandbox.client();
    assert_eq!(owner.ask(adopt(Some(0))), Reply::AdoptedTied {});

    drop(owner);

    let wait = Body::Wait { exec: "exec_1".to_owned(), wait_ms: 20_000 };
    assert!(bystander.hears_end_of(wait), "the sandbox goes on");
}

pub fn a_sandbox_adopted_without_a_tie_goes_on(subject: &Option<Subject>) {
    let Some(subject) = subject else { return };
    let sandbox = Sandbox::make(subject);
    sandbox.client().start("exec_1", sleep(false));
    let mut owner = sandbox.client();
    assert_eq!(owner.ask(adopt(None)), Reply::Done {});

    drop(owner);
    settle(&sandbox);

    assert!(is_running(&sandbox, "exec_1"));
}
