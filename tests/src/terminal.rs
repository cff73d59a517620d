//! A terminal for a call: what people see instead of what pipes get.

/// Runs its arguments on a terminal of so many columns and passes on what is shown.
const SCRIPT: &str = "
import fcntl, os, pty, struct, sys, termios
child, terminal = pty.fork()
if child == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack('HHHH', 24, int(sys.argv[1]), 0, 0))
    os.execvp(sys.argv[2], sys.argv[2:])
while True:
    try:
        shown = os.read(terminal, 65536)
    except OSError:
        break
    if not shown:
        break
    sys.stdout.buffer.write(shown)
    sys.stdout.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))";

/// Returns what to start a call through, so that it is on a terminal.
pub fn terminal(columns: u16) -> [String; 4] {
    ["python3".to_owned(), "-c".to_owned(), SCRIPT.to_owned(), columns.to_string()]
}

/// Returns the lines that were shown, without their colours.
pub fn plain(shown: &str) -> Vec<String> {
    let mut text = String::new();
    let mut characters = shown.chars();
    while let Some(character) = characters.next() {
        match character {
            '\u{1b}' => drop(characters.find(char::is_ascii_alphabetic)),
            '\r' => {}
            other => text.push(other),
        }
    }
    text.lines().map(str::to_owned).collect()
}
