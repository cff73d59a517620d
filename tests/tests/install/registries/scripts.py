# Gives the package of npm's registry, and the project itself, a script that is run when they are installed.
import base64, hashlib, io, json, tarfile

files = {
    'package/package.json': json.dumps({'name': 'small', 'version': '1.0.0', 'main': 'index.js', 'scripts': {
        'install': 'env > /tmp/ran-in; curl -s http://ok.test/ran || true'}}).encode(),
    'package/index.js': b'module.exports = "from a registry";\n',
}
with tarfile.open('npm/small-1.0.0.tgz', 'w:gz') as package:
    for name, contents in files.items():
        entry = tarfile.TarInfo(name)
        entry.size = len(contents)
        entry.mode = 0o644
        package.addfile(entry, io.BytesIO(contents))
digest = base64.b64encode(hashlib.sha512(open('npm/small-1.0.0.tgz', 'rb').read()).digest()).decode()
lock = json.load(open('npm/project/package-lock.json'))
lock['packages']['node_modules/small'].update(integrity=f'sha512-{digest}', hasInstallScript=True)
json.dump(lock, open('npm/project/package-lock.json', 'w'))
