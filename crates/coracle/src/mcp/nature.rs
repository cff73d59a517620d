//! What an operation does to the world, for clients that ask their user before some of them.
//!
//! These are hints. Nothing is let through or refused because of them: that is the gate's.

use rmcp::model::ToolAnnotations;

/// How much an operation changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Effect {
    /// Nothing.
    Reads,
    /// Something is there that was not; twice is as good as once.
    AddsOnce,
    /// Something is there that was not, with every call.
    Adds,
    /// Something may be gone; twice is as good as once.
    DestroysOnce,
    /// Something may be gone, with every call.
    Destroys,
}

/// Whether an operation can reach beyond the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reach {
    Here,
    /// As far as the rules of its network let it.
    World,
}

/// Returns a title and hints for an operation.
///
/// One that is not listed is taken for the worst.
pub fn of(name: &str) -> ToolAnnotations {
    use Effect::{Adds, AddsOnce, Destroys, DestroysOnce, Reads};
    use Reach::{Here, World};

    let (title, effect, reach) = match name {
        "sandbox_run" => ("Run a program in a sandbox of its own", Destroys, World),
        // With a key, twice is as good as once; without one, `/mcp` makes another each time.
        "sandbox_open" => ("Open a sandbox", Adds, Here),
        // What a command does nobody knows before.
        "sandbox_exec" => ("Run a command", Destroys, World),
        "sandbox_exec_read" => ("Read the output of a command", Reads, Here),
        "sandbox_exec_wait" => ("Wait for a command", Reads, Here),
        "sandbox_exec_stop" => ("Stop a command", DestroysOnce, Here),
        "sandbox_exec_write" => ("Write to a command", Destroys, World),
        "sandbox_fs_write" => ("Write a file", DestroysOnce, Here),
        "sandbox_fs_read" => ("Read a file", Reads, Here),
        "sandbox_fs_list" => ("List files", Reads, Here),
        "sandbox_fs_delete" => ("Delete files", DestroysOnce, Here),
        "sandbox_fs_stat" => ("Look at a path", Reads, Here),
        "sandbox_fs_move" => ("Move a file", Destroys, Here),
        "sandbox_close" => ("Destroy a sandbox", DestroysOnce, Here),
        "sandbox_list" => ("List sandboxes", Reads, Here),
        "sandbox_get" => ("Show a sandbox", Reads, Here),
        "sandbox_stats" => ("Show what sandboxes use", Reads, Here),
        "sandbox_pause" => ("Pause a sandbox", AddsOnce, Here),
        "sandbox_resume" => ("Resume a sandbox", AddsOnce, Here),
        "sandbox_fork" => ("Fork a sandbox", Adds, Here),
        "sandbox_snapshot" => ("Keep a sandbox's files as an image", Adds, Here),
        "sandbox_claim" => ("Take a sandbox that is nobody's", AddsOnce, Here),
        "sandbox_transfer" => ("Lend a sandbox to another run", Destroys, Here),
        "sandbox_release" => ("Give a sandbox back", Destroys, Here),
        "sandbox_network" => ("Narrow a sandbox's network", DestroysOnce, Here),
        "event_list" => ("List what happened", Reads, Here),
        "image_pull" => ("Bring an image", AddsOnce, World),
        "image_prepull" => ("Bring the images of the settings", AddsOnce, World),
        "image_build" => ("Build an image", Adds, World),
        "image_load" => ("Load an archive of images", AddsOnce, Here),
        "image_list" => ("List images", Reads, Here),
        "image_remove" => ("Remove an image", DestroysOnce, Here),
        "volume_list" => ("List volumes", Reads, Here),
        "volume_remove" => ("Remove a volume", DestroysOnce, Here),
        unlisted => return hints(unlisted, Destroys, World),
    };
    hints(title, effect, reach)
}

fn hints(title: &str, effect: Effect, reach: Reach) -> ToolAnnotations {
    let (read_only, destructive, idempotent) = match effect {
        Effect::Reads => (true, false, true),
        Effect::AddsOnce => (false, false, true),
        Effect::Adds => (false, false, false),
        Effect::DestroysOnce => (false, true, true),
        Effect::Destroys => (false, true, false),
    };
    ToolAnnotations::with_title(title)
        .read_only(read_only)
        .destructive(destructive)
        .idempotent(idempotent)
        .open_world(reach == Reach::World)
}

#[cfg(test)]
mod tests {
    use coracle_engine::ops;

    use super::*;

    #[test]
    fn every_operation_has_a_title_of_its_own() {
        let mut titles: Vec<_> = ops::names().iter().filter_map(|name| of(name).title).collect();
        let untitled: Vec<_> =
            ops::names().iter().filter(|name| titles.contains(&(**name).to_owned())).collect();
        titles.sort();
        titles.dedup();

        assert!(untitled.is_empty(), "{untitled:?}");
        assert_eq!(titles.len(), ops::names().len());
    }

    #[test]
    fn what_may_make_another_with_every_call_says_so() {
        for name in ["sandbox_open", "sandbox_run", "sandbox_fork", "sandbox_snapshot", "sandbox_exec"] {
            assert_eq!(of(name).idempotent_hint, Some(false), "{name}");
        }
    }

    #[test]
    fn what_takes_a_sandbox_away_says_so() {
        for name in ["sandbox_close", "sandbox_transfer", "sandbox_release", "sandbox_fs_delete"] {
            assert_eq!(of(name).destructive_hint, Some(true), "{name}");
            assert_eq!(of(name).read_only_hint, Some(false), "{name}");
        }
    }
}
