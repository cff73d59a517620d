# Starts children of every kind that is hard to kill: other sessions and groups, deaf, stopped, and forking all the time.
import os, signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
signal.signal(signal.SIGHUP, signal.SIG_IGN)
def forever():
    while True:
        time.sleep(60)
if os.fork() == 0:
    forever()
if os.fork() == 0:
    os.setsid()
    forever()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.setpgid(0, 0)
        forever()
    os._exit(0)
if os.fork() == 0:
    os.setsid()
    os.kill(os.getpid(), signal.SIGSTOP)
    forever()
if os.fork() == 0:
    os.setsid()
    while True:
        if os.fork() == 0:
            os.setsid()
            time.sleep(0.2)
            os._exit(0)
        time.sleep(0.05)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            pass
print('started', flush=True)
forever()
