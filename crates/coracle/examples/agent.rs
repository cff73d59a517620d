//! A typical agent: opens a sandbox, writes a file there, runs code on it, reads the result.
//!
//! Run it with `cargo run --example agent`.

use std::time::Duration;

use coracle::{Command, Config, Coracle, SpecInput};

const SCRIPT: &str = "
import json
numbers = json.load(open('numbers.json'))
json.dump({'sum': sum(numbers)}, open('result.json', 'w'))
print('summed', len(numbers), 'numbers')
";

fn main() -> coracle::Result<()> {
    let coracle = Coracle::open(Config::load(Default::default())?)?;
    let sandbox = coracle.create(SpecInput::default())?;

    sandbox.write_file("numbers.json", "[17, 25]")?;
    let ran = sandbox.exec(Command::new("python3").args(["-c", SCRIPT]).timeout(Duration::from_secs(10)))?;
    print(&ran.stdout);
    print(&ran.stderr);
    if ran.progress.exit_code == Some(0) {
        print(&sandbox.read_file("result.json")?);
        print(b"\n");
    }

    sandbox.close()
}

/// Ignores a closed pipe: the sandbox must still be closed.
fn print(bytes: &[u8]) {
    let _ = std::io::Write::write_all(&mut std::io::stdout(), bytes);
}
