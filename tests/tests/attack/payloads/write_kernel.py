# Writes to settings of the machine: a marker to the first, one more than there is to the numbers.
import os, sys
def write(path, text):
    try:
        os.write(os.open(path, os.O_WRONLY), text)
    except OSError:
        pass
write('/proc/sys/kernel/core_pattern', sys.argv[1].encode())
for path in sys.argv[2:]:
    try:
        value = int(open(path).read().split()[0], 0)
    except (OSError, ValueError, IndexError):
        value = 0
    write(path, str(value + 1).encode())
for path in ('/proc/sysrq-trigger', '/proc/sys/fs/binfmt_misc/register', '/sys/kernel/uevent_helper', '/proc/sys/kernel/hotplug',
             '/proc/sys/kernel/modprobe', '/proc/sys/kernel/usermodehelper/bset'):
    write(path, b'\n')
