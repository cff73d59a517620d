# A project for cargo that needs the crate of the registry beside it, as if that were the usual one.
import json, os

checksum = json.loads(open('cargo/index/sm/al/small').read())['cksum']
os.makedirs('project/src')
open('project/Cargo.toml', 'w').write('[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n\n[dependencies]\nsmall = "1"\n')
open('project/Cargo.lock', 'w').write(f'''version = 3

[[package]]
name = "app"
version = "1.0.0"
dependencies = [
 "small",
]

[[package]]
name = "small"
version = "1.0.0"
source = "registry+https://github.com/rust-lang/crates.io-index"
checksum = "{checksum}"
''')
open('project/src/main.rs', 'w').write('fn main() {}\n')
