//! The contract of every backend, and of the guest in its sandboxes. Clauses use only programs any Debian has.

pub mod execs;
pub mod files;
pub mod forks;
pub mod greeting;
pub mod life;
pub mod sleep;
pub mod ties;

use std::any::Any;
use std::os::unix::net::UnixStream;

use coracle_wire::Hello;

use crate::{Client, sample};
use coracle_core::backend::{Backend, Created, EndsWith, Order, Placement};
use coracle_core::error::Result;
use coracle_core::ids::{InstanceId, SandboxId};
use coracle_core::image::Silent;
use coracle_core::lease::Epoch;
use coracle_core::record::Secret;
use coracle_core::spec::Spec;

/// The epoch sandboxes are made under: high enough that there are older ones to refuse.
const EPOCH: u64 = 3;

/// A backend under test, as an instance of its own.
pub struct Subject {
    pub backend: Box<dyn Backend>,
    pub instance: InstanceId,
    /// The spec of sandboxes; the image must have a shell and the usual small programs.
    pub spec: Spec,
    /// Lives as long as the backend, such as a temporary home.
    pub keep: Box<dyn Any>,
}

impl std::fmt::Debug for Subject {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Subject")
            .field("backend", &self.backend.name())
            .field("instance", &self.instance)
            .finish()
    }
}

/// Runs the suite against the backends that `$make`, a `fn() -> Option<Subject>`, returns.
///
/// Each call is another instance, on the same machine. `None` skips a test; `$make` decides whether that is allowed.
#[macro_export]
macro_rules! backend_conformance {
    ($make:expr) => {
        $crate::conformance_clauses!(
            $make,
            life,
            $crate::conformance::backend::life,
            [
                a_sandbox_that_was_made_answers_and_is_surveyed,
                a_survey_shows_only_sandboxes_of_its_instance,
                a_destroyed_sandbox_leaves_nothing,
                destroying_twice_succeeds,
                destroying_what_never_was_succeeds,
                destroying_one_sandbox_leaves_others_alone,
                destroying_ends_running_commands_and_connections,
            ]
        );
        $crate::conformance_clauses!(
            $make,
            greeting,
            $crate::conformance::backend::greeting,
            [
                the_guest_welcomes_who_knows_the_secret,
                a_wrong_secret_is_refused,
                a_client_of_the_future_gets_a_version_both_speak,
                a_client_without_a_common_version_is_refused,
                the_same_guest_answers_every_connection,
            ]
        );
        $crate::conformance_clauses!(
            $make,
            execs,
            $crate::conformance::backend::execs,
            [
                a_command_has_its_output_and_exit_code,
                both_streams_share_one_numbering_from_one,
                reading_goes_on_after_any_number,
                starting_twice_finds_the_first,
                another_command_under_the_same_id_is_a_conflict,
                a_missing_program_is_not_started,
                an_unknown_exec_is_not_found,
                variables_reach_the_command,
                standard_input_reaches_the_command,
                a_command_without_input_finds_it_empty,
                stopping_ends_a_command,
                a_signal_ends_a_command,
                a_deadline_ends_a_command,
                a_reader_waits_for_output,
                two_connections_work_at_once,
                a_wait_ends_with_its_connection,
                a_command_outlives_its_connection,
                an_older_epoch_is_refused,
                a_fence_refuses_everyone_before_it,
                a_fence_may_keep_what_runs,
                a_fence_may_kill_what_runs,
            ]
        );
        $crate::conformance_clauses!(
            $make,
            ties,
            $crate::conformance::backend::ties,
            [
                an_exec_ends_with_the_connection_it_is_tied_to,
                what_is_tied_runs_on_the_same_connection,
                an_exec_that_was_started_untied_stays_so,
                a_tied_start_whose_client_has_gone_is_stopped,
                an_untied_start_under_the_id_of_a_client_that_has_gone_goes_on,
                a_sandbox_adopted_with_a_tie_ends_with_the_connection,
                a_sandbox_adopted_without_a_tie_goes_on,
            ]
        );
        $crate::conformance_clauses!(
            $make,
            forks,
            $crate::conformance::backend::forks,
            [
                what_is_made_from_a_sandbox_has_its_files_and_shares_nothing,
                a_sandbox_whose_files_were_taken_goes_on,
                a_cancelled_snapshot_keeps_nothing,
                a_hold_ends_with_its_connection,
                a_hold_that_nobody_renews_ends_and_cannot_be_renewed,
                who_waited_for_a_hold_is_refused_if_the_fence_was_raised_in_it,
                a_fence_kills_what_is_from_before_the_epoch_it_names,
            ]
        );
        $crate::conformance_clauses!(
            $make,
            sleep,
            $crate::conformance::backend::sleep,
            [
                a_sandbox_at_rest_wakes_with_its_files,
                a_sandbox_at_rest_has_files_and_no_guest,
                resting_twice_does_no_more,
                what_has_no_files_cannot_rest,
                the_secret_of_an_earlier_life_opens_nothing,
                a_destroyed_sleeper_leaves_nothing,
            ]
        );
        $crate::conformance_clauses!(
            $make,
            files,
            $crate::conformance::backend::files,
            [
                a_written_file_is_read_back,
                relative_paths_start_at_the_workspace,
                a_relative_path_cannot_leave_the_workspace,
                a_missing_file_says_so,
                a_file_is_read_in_pieces,
                a_file_written_in_pieces_is_there_when_it_is_whole,
                a_file_begun_and_abandoned_leaves_nothing,
                without_overwrite_the_old_file_stays,
                a_directory_lists_what_is_in_it,
                a_file_is_described,
                a_file_moves,
                a_file_is_deleted,
                a_directory_is_deleted_only_with_everything_in_it,
                files_and_commands_see_the_same_workspace,
                an_opened_file_is_read_on_whatever_has_its_name,
                a_directory_is_made_with_those_above_it_and_finished,
            ]
        );
    };
}

/// A sandbox made for one test; destroyed at its end, however it ends.
struct Sandbox<'a> {
    subject: &'a Subject,
    id: SandboxId,
    secret: Secret,
    placement: Placement,
}

impl<'a> Sandbox<'a> {
    fn make(subject: &'a Subject) -> Self {
        let (id, secret) = (sample::sandbox(), Secret([0x5a; 32]));
        subject.backend.prepare(&subject.spec, &Silent).expect("the backend prepares what the spec needs");
        let order = Order {
            sandbox: &id,
            instance: &subject.instance,
            spec: &subject.spec,
            secret: &secret,
            epoch: Epoch(EPOCH),
            replaces: None,
            ends_with: EndsWith::Nothing,
        };
        let Created { placement, .. } = subject.backend.create(&order).expect("the backend makes a sandbox");
        Self { subject, id, secret, placement }
    }

    /// Returns the same sandbox with its next guest.
    fn again(self, secret: Secret, placement: Placement) -> Self {
        let (subject, id) = (self.subject, self.id.clone());
        // Its end must not destroy what goes on.
        std::mem::forget(self);
        Self { subject, id, secret, placement }
    }

    fn stream(&self) -> Result<UnixStream> {
        self.subject.backend.connect(&self.id, &self.placement)
    }

    fn client(&self) -> Client {
        self.client_under(EPOCH)
    }

    fn client_under(&self, epoch: u64) -> Client {
        Client::connect(self.stream().expect("the guest is there"), &self.secret, epoch)
            .expect("the guest welcomes us")
    }

    fn hello(&self, oldest: u16, newest: u16) -> Hello {
        Hello { oldest, newest, secret: self.secret.0.to_vec() }
    }

    fn destroy(&self) {
        self.subject.backend.destroy(&self.id).expect("the backend destroys");
    }
}

impl Drop for Sandbox<'_> {
    fn drop(&mut self) {
        // The test may have destroyed it, or be failing already.
        let _ = self.subject.backend.destroy(&self.id);
    }
}
