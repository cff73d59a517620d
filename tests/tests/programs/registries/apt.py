# A repository for apt with one package, which adds a user and gives it a directory.
import gzip, hashlib, os, subprocess

os.makedirs('build/DEBIAN')
os.makedirs('build/var/lib/served')
os.makedirs('apt')
open('build/DEBIAN/control', 'w').write('''Package: served
Version: 1.0
Architecture: all
Maintainer: Tests <tests@ok.test>
Depends: adduser
Description: a service with a user of its own
''')
open('build/DEBIAN/postinst', 'w').write('''#!/bin/sh
set -e
adduser --quiet --system --group --no-create-home --home /var/lib/served served
chown served:served /var/lib/served
''')
os.chmod('build/DEBIAN/postinst', 0o755)
subprocess.run(['dpkg-deb', '--root-owner-group', '--build', 'build', 'apt/served.deb'], check=True, stdout=subprocess.DEVNULL)
package = open('apt/served.deb', 'rb').read()
control = open('build/DEBIAN/control').read()
index = f'{control}Filename: ./served.deb\nSize: {len(package)}\nSHA256: {hashlib.sha256(package).hexdigest()}\n'.encode()
open('apt/Packages', 'wb').write(index)
open('apt/Release', 'w').write(f'Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n {hashlib.sha256(index).hexdigest()} {len(index)} Packages\n')
