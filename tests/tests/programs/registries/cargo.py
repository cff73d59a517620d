# A registry for cargo with one crate.
import hashlib, io, json, os, tarfile

os.makedirs('cargo/index/sm/al')
files = {
    'small-1.0.0/Cargo.toml': b'[package]\nname = "small"\nversion = "1.0.0"\nedition = "2021"\n',
    'small-1.0.0/src/lib.rs': b'pub fn origin() -> &\'static str { "from a registry" }\n',
}
with tarfile.open('cargo/small-1.0.0.crate', 'w:gz') as crate:
    for name, contents in files.items():
        entry = tarfile.TarInfo(name)
        entry.size = len(contents)
        crate.addfile(entry, io.BytesIO(contents))
checksum = hashlib.sha256(open('cargo/small-1.0.0.crate', 'rb').read()).hexdigest()
line = {'name': 'small', 'vers': '1.0.0', 'deps': [], 'cksum': checksum, 'features': {}, 'yanked': False}
open('cargo/index/sm/al/small', 'w').write(json.dumps(line) + '\n')
open('cargo/index/config.json', 'w').write('{"dl": "http://ok.test/cargo/{crate}-{version}.crate"}')
