# A registry for npm with one package, and the lock file of a project that uses it.
import base64, hashlib, io, json, os, tarfile

os.makedirs('npm/project')
files = {
    'package/package.json': json.dumps({'name': 'small', 'version': '1.0.0', 'main': 'index.js'}).encode(),
    'package/index.js': b'module.exports = "from a registry";\n',
}
with tarfile.open('npm/small-1.0.0.tgz', 'w:gz') as package:
    for name, contents in files.items():
        entry = tarfile.TarInfo(name)
        entry.size = len(contents)
        entry.mode = 0o644
        package.addfile(entry, io.BytesIO(contents))
digest = base64.b64encode(hashlib.sha512(open('npm/small-1.0.0.tgz', 'rb').read()).digest()).decode()
needs = {'small': '1.0.0'}
project = {'name': 'app', 'version': '1.0.0', 'dependencies': needs}
small = {'version': '1.0.0', 'resolved': 'http://ok.test/npm/small-1.0.0.tgz', 'integrity': f'sha512-{digest}'}
lock = {'name': 'app', 'version': '1.0.0', 'lockfileVersion': 3, 'requires': True, 'packages': {'': project, 'node_modules/small': small}}
json.dump(project, open('npm/project/package.json', 'w'))
json.dump(lock, open('npm/project/package-lock.json', 'w'))
