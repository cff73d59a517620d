# Writes to whatever covers the kernel's files.
import os, sys
for name in ('cmdline', 'config.gz', 'diskstats', 'interrupts', 'iomem', 'ioports', 'kcore', 'key-users', 'keys', 'kmsg',
             'latency_stats', 'partitions', 'sched_debug', 'timer_list'):
    try:
        descriptor = os.open('/proc/' + name, os.O_WRONLY)
        os.write(descriptor, sys.argv[1].encode())
    except OSError:
        pass
