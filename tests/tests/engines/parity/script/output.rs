//! Output: small, large, binary, more than is kept.

use serde_json::json;

use crate::parity::stage::Stage;

/// What `seq 1 100000` prints.
const FLOOD: u64 = 588_895;

pub fn play(stage: &mut Stage) {
    let sandbox = stage.open(&["--output", "100k"]);
    let scripts = [
        "echo out; echo err >&2",
        "printf 'no newline'",
        "printf ''",
        "printf '\\000\\377\\200text'",
        "printf '\\303\\274 \\342\\202\\254 \\360\\237\\220\\200'",
        "printf '\\033[31mred\\033[0m\\r\\n'",
        "head -c 50000 /dev/zero | tr '\\0' x",
        "seq 1 5000",
        "printf out; printf err >&2; exit 9",
        "head -c 300000 /dev/zero | tr '\\0' x >&2",
        "head -c 3000000 /dev/zero",
    ];
    for script in scripts {
        stage.shell(&sandbox, script);
    }
    // Which part was thrown away depends on the pace; that no byte is unaccounted for does not.
    let flood = stage.exec(&sandbox, &["sh", "-c", "seq 1 100000"], json!({}));
    let kept = flood["stdout"].as_str().map(|text| text.len() as u64);
    assert_eq!(
        kept.zip(flood["truncation"]["bytes"].as_u64()).map(|(kept, gone)| kept + gone),
        Some(FLOOD),
        "{flood}"
    );
    stage.call(&["exec", &sandbox, "--", "sh", "-c", "seq 1 20000"]);
    stage.call(&["close", &sandbox, "--json"]);
}
