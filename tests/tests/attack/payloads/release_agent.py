# Has the kernel run a program of the machine when a cgroup becomes empty. Leaves no tree of groups behind.
import ctypes, os, sys, time
agent, name = sys.argv[1:3]
libc = ctypes.CDLL(None, use_errno=True)
os.makedirs('/tmp/groups', exist_ok=True)
mounted = libc.mount(b'none', b'/tmp/groups', b'cgroup', 0, f'none,name={name}'.encode()) == 0
if mounted:
    try:
        open('/tmp/groups/release_agent', 'w').write(agent)
        os.makedirs('/tmp/groups/child', exist_ok=True)
        open('/tmp/groups/child/notify_on_release', 'w').write('1')
        if os.fork() == 0:
            open('/tmp/groups/child/tasks', 'w').write('0')
            os._exit(0)
        os.wait()
        time.sleep(0.2)
    except OSError:
        pass
    for _ in range(100):
        try:
            os.rmdir('/tmp/groups/child')
            break
        except FileNotFoundError:
            break
        except OSError:
            time.sleep(0.02)
    libc.umount2(b'/tmp/groups', 0)
