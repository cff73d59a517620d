//! Program text: the file it goes into and the command that runs it.

use coracle_core::spec::{Runtime, WORKSPACE};

use super::ExecRequest;

impl ExecRequest {
    /// Makes it run program text; returns the name of the file in the workspace the text has to be in by then.
    ///
    /// It starts beside that file, unless the caller named a place: an image's own working directory is meant for
    /// the image's own command.
    pub fn run_text(&mut self, runtime: Runtime, arguments: Vec<Vec<u8>>) -> &'static str {
        let (interpreter, script) = runtime.interpreter();
        let path = format!("{WORKSPACE}/{script}");
        let words = interpreter.iter().map(|word| word.as_bytes().to_vec());
        self.argv = words.chain([path.into_bytes()]).chain(arguments).collect();
        self.cwd.get_or_insert_with(|| WORKSPACE.to_owned());
        script
    }
}
