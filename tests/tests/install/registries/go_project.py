# A project for go that needs the module of the proxy beside it.
import base64, hashlib, os, zipfile

def h1(files):
    lines = ''.join(f'{hashlib.sha256(contents).hexdigest()}  {name}\n' for name, contents in sorted(files.items()))
    return 'h1:' + base64.b64encode(hashlib.sha256(lines.encode()).digest()).decode()

at = 'go/ok.test/small/@v/v1.0.0'
with zipfile.ZipFile(f'{at}.zip') as archive:
    module = h1({name: archive.read(name) for name in archive.namelist()})
manifest = h1({'go.mod': open(f'{at}.mod', 'rb').read()})
os.makedirs('project')
open('project/go.mod', 'w').write('module ok.test/app\n\ngo 1.19\n\nrequire ok.test/small v1.0.0\n')
open('project/go.sum', 'w').write(f'ok.test/small v1.0.0 {module}\nok.test/small v1.0.0/go.mod {manifest}\n')
open('project/main.go', 'w').write('package main\n\nimport "ok.test/small"\n\nfunc main() { println(small.Origin()) }\n')
