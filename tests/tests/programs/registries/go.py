# A proxy for go with one module.
import os, zipfile

at = 'go/ok.test/small/@v'
os.makedirs(at)
module = 'module ok.test/small\n\ngo 1.19\n'
open(f'{at}/list', 'w').write('v1.0.0\n')
open(f'{at}/v1.0.0.info', 'w').write('{"Version": "v1.0.0", "Time": "2026-01-01T00:00:00Z"}')
open(f'{at}/v1.0.0.mod', 'w').write(module)
with zipfile.ZipFile(f'{at}/v1.0.0.zip', 'w') as archive:
    archive.writestr('ok.test/small@v1.0.0/go.mod', module)
    archive.writestr('ok.test/small@v1.0.0/small.go', 'package small\n\nfunc Origin() string { return "from a proxy" }\n')
