//! What an agent does all day: opens a sandbox, puts a file there, runs code on it, reads what came out.
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

/// A reader that goes away is no reason to leave the sandbox open.
fn print(bytes: &[u8]) {
    let _ = std::io::Write::write_all(&mut std::io::stdout(), bytes);
}
