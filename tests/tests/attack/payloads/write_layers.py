# Makes and links files in what every sandbox shares with the machine.
import os, sys
name = sys.argv[1]
for directory in ('/usr', '/usr/share', '/usr/bin', '/usr/lib', '/bin', '/lib', '/etc', '/opt'):
    try:
        open(os.path.join(directory, name), 'w').write('written by a sandbox')
    except OSError:
        pass
for source in ('/usr/bin/env', '/etc/os-release'):
    for target in ('/workspace/', '/tmp/', '/dev/shm/'):
        try:
            os.link(source, target + name, follow_symlinks=False)
        except OSError:
            continue
