# Watches for processes that are not yet the program they are to become, and looks into them.
import os
newest = os.open('/proc/loadavg', os.O_RDONLY)
print('watching', flush=True)
while not os.path.exists('/workspace/stop'):
    for _ in range(500):
        # The last field is the process made last.
        pid = os.pread(newest, 64, 0).split()[-1].decode()
        try:
            program = os.readlink(f'/proc/{pid}/exe')
            if program.startswith(('/usr', '/bin')):
                continue
            print('saw a command before its program', program, flush=True)
            with open(f'/proc/{pid}/maps') as maps:
                start = int(maps.readline().split('-')[0], 16)
            with open(f'/proc/{pid}/mem', 'rb') as memory:
                memory.seek(start)
                memory.read(4)
                print('read the memory of a command before its program', flush=True)
        except (OSError, ValueError):
            pass
