# Reads what speaks of the machine and prints the names of what could be read.
import os
files = ['/proc/' + name for name in ('cmdline', 'config.gz', 'diskstats', 'interrupts', 'iomem', 'ioports', 'kcore', 'key-users',
         'keys', 'kmsg', 'latency_stats', 'partitions', 'sched_debug', 'timer_list', 'timer_stats', 'kpagecount', 'kpageflags',
         'slabinfo', 'vmallocinfo', 'pagetypeinfo')]
directories = ['/proc/acpi', '/proc/asound', '/proc/scsi', '/sys/firmware', '/sys/devices/virtual/powercap', '/sys/class/powercap',
               '/sys/devices/system/cpu/cpu0/thermal_throttle', '/sys/kernel/debug', '/sys/kernel/security']
for path in files:
    try:
        if os.read(os.open(path, os.O_RDONLY | os.O_NONBLOCK), 4096).strip(b'\0'):
            print('read', path)
    except OSError:
        pass
for path in directories:
    try:
        if os.listdir(path):
            print('listed', path)
    except OSError:
        pass
try:
    if any(line[:16].strip('0') for line in open('/proc/kallsyms')):
        print('read addresses of the kernel')
except OSError:
    pass
