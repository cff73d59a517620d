//! Every operation there is. The doors are made from this list, so no door can do what another cannot.

pub mod event;
pub mod image;
mod parse;
mod read;
pub mod sandbox;
pub mod volume;

use coracle_core::{Error, Kind, Result};
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, schema_for};
use serde::Serialize;
use serde_json::{Value, json};

pub use self::parse::{INPUT_MAX, parse};
pub use self::read::read;
use crate::{Caller, Engine, spans};

/// What an input asks for.
pub trait Operation {
    /// The name every door has for it.
    const NAME: &'static str;
    type Output;

    /// Does it, and tells nobody: that is left to [`Engine::perform`].
    fn carry_out(self, engine: &Engine, caller: &Caller) -> Result<Self::Output>;
}

impl Engine {
    /// Carries out what an input asks for. Doors that know which operation they want come this way, the others by
    /// [`Engine::call`]; both open the same span.
    pub fn perform<O: Operation>(&self, caller: &Caller, input: O) -> Result<O::Output> {
        self.performing(caller, O::NAME, || input.carry_out(self, caller))
    }

    /// Has what a door does by itself count as an operation, where it has to look in between.
    pub fn performing<T>(
        &self,
        caller: &Caller,
        operation: &'static str,
        deed: impl FnOnce() -> Result<T>,
    ) -> Result<T> {
        spans::within(spans::operation(operation, caller), deed)
    }
}

/// Those that tell what there is, however much that is. The others say little, or take room for what they carry before
/// they read it.
const TELLING: &[&str] =
    &["sandbox_get", "sandbox_list", "sandbox_stats", "event_list", "image_list", "volume_list"];

impl Engine {
    /// Turns an operation's output into JSON, if there is room for that.
    fn told<Output: Serialize>(&self, name: &str, output: &Output) -> Result<Value> {
        if TELLING.contains(&name) && self.inline.is_counted() {
            self.inline.expect(length(output))?;
        }
        written(name, output)
    }

    /// Takes room for an answer of this many bytes that was made before, or refuses to give it.
    pub fn expect_room(&self, bytes: u64) -> Result<()> {
        self.inline.expect(bytes)
    }
}

/// Returns how long an output is as text, without making it.
fn length(output: &impl Serialize) -> u64 {
    let mut counted = Counted(0);
    // An output that cannot be written is refused when the answer is.
    let _ = serde_json::to_writer(&mut counted, output);
    counted.0
}

struct Counted(u64);

impl std::io::Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// The roll-call: a name, the module with its `Input`, `Output` and `call`, and what it does.
macro_rules! operations {
    ($($name:literal => $module:path, $about:literal;)+) => {
        /// Returns the names of all operations.
        pub fn names() -> &'static [&'static str] {
            &[$($name),+]
        }

        /// Returns one sentence on what an operation does.
        pub fn about(name: &str) -> Option<&'static str> {
            match name {
                $($name => Some($about),)+
                _ => None,
            }
        }

        /// Returns the schemas of an operation's input and output.
        pub fn schema(name: &str) -> Option<Value> {
            match name {
                $($name => {
                    use $module as operation;
                    Some(schemas::<operation::Input, operation::Output>())
                })+
                _ => None,
            }
        }

        impl Engine {
            /// Carries out an operation by its name.
            pub fn call(&self, caller: &Caller, name: &str, input: Value) -> Result<Value> {
                match name {
                    $($name => {
                        use $module as operation;
                        spans::within(spans::operation($name, caller), || {
                            self.told($name, &operation::call(self, caller, read($name, input)?)?)
                        })
                    })+
                    _ => Err(unknown(name)),
                }
            }
        }

        $(const _: () = {
            use $module as operation;

            impl Operation for operation::Input {
                const NAME: &'static str = $name;
                type Output = operation::Output;

                fn carry_out(self, engine: &Engine, caller: &Caller) -> Result<Self::Output> {
                    operation::call(engine, caller, self)
                }
            }
        };)+
    };
}

operations! {
    "sandbox_run" => sandbox::run, "Runs a program or a command in a new sandbox that is gone afterwards";
    "sandbox_open" => sandbox::open, "Returns the sandbox of a session, making it if there is none";
    "sandbox_exec" => sandbox::exec, "Runs a command in a sandbox, to its end or in the background";
    "sandbox_exec_read" => sandbox::exec_read, "Returns output of a command, from any place on";
    "sandbox_exec_wait" => sandbox::exec_wait, "Waits for a command to end";
    "sandbox_exec_stop" => sandbox::exec_stop, "Ends a command and everything it started";
    "sandbox_exec_write" => sandbox::exec_write, "Writes to the standard input of a running command";
    "sandbox_fs_write" => sandbox::fs_write, "Writes a file in a sandbox";
    "sandbox_fs_read" => sandbox::fs_read, "Returns the contents of a file in a sandbox";
    "sandbox_fs_list" => sandbox::fs_list, "Lists a directory in a sandbox";
    "sandbox_fs_delete" => sandbox::fs_delete, "Removes a file or directory in a sandbox";
    "sandbox_fs_stat" => sandbox::fs_stat, "Tells what a path in a sandbox is";
    "sandbox_fs_move" => sandbox::fs_move, "Gives a file or directory in a sandbox another name";
    "sandbox_close" => sandbox::close, "Destroys a sandbox";
    "sandbox_list" => sandbox::list, "Lists sandboxes";
    "sandbox_get" => sandbox::get, "Shows a sandbox: its record, and to its owner what goes on in it";
    "sandbox_stats" => sandbox::stats, "Tells what sandboxes use: time, memory, processes, files";
    "sandbox_pause" => sandbox::pause, "Has everything in a sandbox stand still; its time does not count";
    "sandbox_resume" => sandbox::resume, "Has everything in a paused sandbox go on";
    "sandbox_fork" => sandbox::fork, "Makes sandboxes that start with the files of another";
    "sandbox_snapshot" => sandbox::snapshot, "Keeps the files of a sandbox as an image";
    "sandbox_claim" => sandbox::claim, "Takes a sandbox that is nobody's";
    "sandbox_transfer" => sandbox::transfer, "Lends a sandbox to another run";
    "sandbox_release" => sandbox::release, "Gives a sandbox back to the run it came from";
    "sandbox_network" => sandbox::network, "Narrows what a sandbox may reach";
    "image_pull" => image::pull, "Brings an image from its registry";
    "image_prepull" => image::prepull, "Brings the images the settings name, before anybody needs them";
    "image_build" => image::build, "Builds an image from a Dockerfile";
    "image_load" => image::load, "Brings the images in an archive on the machine";
    "image_list" => image::list, "Lists the images that are here";
    "image_remove" => image::remove, "Forgets an image and removes what nothing else uses of it";
    "event_list" => event::list, "Returns what happened to sandboxes, and waits for more if asked to";
    "volume_list" => volume::list, "Lists the volumes that are here";
    "volume_remove" => volume::remove, "Removes a volume with all that is in it";
}

fn schemas<Input: JsonSchema, Output: JsonSchema>() -> Value {
    // What is written may lack fields that are left out where there is nothing to say; what is read has defaults.
    let output =
        SchemaSettings::draft2020_12().for_serialize().into_generator().into_root_schema_for::<Output>();
    json!({"input": schema_for!(Input), "output": output})
}

/// Turns an operation's output into JSON.
pub fn written<Output: Serialize>(name: &str, output: &Output) -> Result<Value> {
    serde_json::to_value(output)
        .map_err(|error| Error::internal(format!("could not write the reply of `{name}`"), error))
}

fn unknown(name: &str) -> Error {
    let shown: String = name.escape_debug().take(64).collect();
    let near = coracle_core::near::names_like(name, names());
    let hint = match near.is_empty() {
        true => format!("use one of: {}", names().join(", ")),
        false => format!("did you mean {}?", near.join(" or ")),
    };
    Error::new(Kind::Invalid, format!("there is no operation `{shown}`")).hint(hint)
}
