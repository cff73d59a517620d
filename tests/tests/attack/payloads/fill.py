# Writes to every place a command may write to, until each is full or has taken enough.
import os, sys
enough = int(sys.argv[1]) << 20
for place in ('/workspace', '/tmp', '/var/tmp', '/usr/share', '/root', '/home'):
    try:
        file = os.open(place + '/fill', os.O_WRONLY | os.O_CREAT)
        written = 0
        while written < enough:
            written += os.write(file, os.urandom(1 << 20))
        os.fsync(file)
    except OSError:
        pass
